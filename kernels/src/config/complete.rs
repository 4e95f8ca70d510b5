//! What a whole configuration still lacks of what guests need: the dependencies of options
//! that Kconfig has dropped.

use std::collections::BTreeSet;
use std::path::Path;

use super::file::Config;
use super::kconfig::Symbols;
use super::requested::{Absence, Requested};
use crate::cache::CacheError;

/// The options that have to be set besides, so that a whole configuration gets those that
/// guests need. None if nothing was dropped, or there is no whole configuration.
pub(crate) fn dependencies(
    config: &Config,
    requested: &Requested,
    source: &Path,
) -> Result<BTreeSet<String>, CacheError> {
    if requested.whole.is_none() {
        return Ok(BTreeSet::new());
    }
    // The user's own options are theirs to complete.
    let dropped: Vec<&String> = requested
        .options
        .iter()
        .filter(|(option, asked)| {
            asked.absence != Absence::Wrong
                && asked.value == "y"
                && config.value(option) != Some("y")
        })
        .map(|(option, _)| option)
        .collect();
    if dropped.is_empty() {
        return Ok(BTreeSet::new());
    }
    let symbols = Symbols::find(source, dropped.iter().map(|option| option.as_str()))?;
    let symbols = dropped.iter().filter_map(|option| symbols.get(option));
    let needs: Vec<&str> = symbols.flat_map(|symbol| symbol.needs()).collect();
    let missing = needs.into_iter().flat_map(|need| missing(need, config));
    Ok(missing.collect())
}

/// The options that make an expression true when they are set, as far as it is made of
/// alternatives and conditions that all have to hold.
fn missing(expression: &str, config: &Config) -> Vec<String> {
    let expression = without_parentheses(expression.trim());
    let all = parts(expression, "&&");
    if all.len() > 1 {
        return all.iter().flat_map(|part| missing(part, config)).collect();
    }
    let alternatives = parts(expression, "||");
    if alternatives.len() > 1 {
        let ways = alternatives.iter().map(|part| missing(part, config));
        return ways.min_by_key(Vec::len).unwrap_or_default();
    }
    let name = expression.strip_suffix("=y").unwrap_or(expression);
    let is_name = name
        .chars()
        .all(|letter| letter.is_ascii_alphanumeric() || letter == '_');
    let option = format!("CONFIG_{name}");
    match is_name && !name.is_empty() && config.value(&option).is_none() {
        true => vec![option],
        false => Vec::new(),
    }
}

fn without_parentheses(expression: &str) -> &str {
    let inner = expression
        .strip_prefix('(')
        .and_then(|inner| inner.strip_suffix(')'));
    match inner {
        // Not so for `(A) && (B)`.
        Some(inner) if depths(inner).all(|(_, depth)| depth >= 0) => {
            without_parentheses(inner.trim())
        }
        _ => expression,
    }
}

/// Splits an expression where `operator` stands outside of parentheses.
fn parts<'a>(expression: &'a str, operator: &str) -> Vec<&'a str> {
    let mut parts = Vec::new();
    let mut from = 0;
    for (at, depth) in depths(expression) {
        if depth == 0 && at >= from && expression[at..].starts_with(operator) {
            parts.push(&expression[from..at]);
            from = at + operator.len();
        }
    }
    parts.push(&expression[from..]);
    parts
}

/// Each letter's place, and how many parentheses are open after it.
fn depths(expression: &str) -> impl Iterator<Item = (usize, i32)> {
    expression.char_indices().scan(0, |depth, (at, letter)| {
        *depth += match letter {
            '(' => 1,
            ')' => -1,
            _ => 0,
        };
        Some((at, *depth))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_makes_an_expression_true_is_found() {
        let config = Config::parse("CONFIG_SET=y\n");
        for (expression, expected) in [
            ("SET", vec![]),
            ("A", vec!["CONFIG_A"]),
            ("A && SET && (B=y)", vec!["CONFIG_A", "CONFIG_B"]),
            ("(A) && (B)", vec!["CONFIG_A", "CONFIG_B"]),
            ("A || SET", vec![]),
            ("A && (B || (C && D))", vec!["CONFIG_A", "CONFIG_B"]),
            ("!A", vec![]),
            ("A != \"x\"", vec![]),
            ("((A", vec![]),
        ] {
            assert_eq!(missing(expression, &config), expected, "{expression}");
        }
    }

    #[test]
    fn only_what_guests_need_of_a_whole_configuration_is_completed() {
        use crate::spec::Fragment;
        let fragment = |name: &str, text: &str| Fragment {
            name: name.to_owned(),
            text: text.to_owned(),
        };
        let source = tempfile::tempdir().unwrap();
        let text = "config DEBUG\n\tbool \"x\"\nconfig SCHED\n\tbool \"x\"\n\tdepends on DEBUG\n";
        std::fs::write(source.path().join("Kconfig"), text).unwrap();
        let mut requested = Requested::read(&[fragment("contract", "CONFIG_SCHED=y\n")]).unwrap();
        let found = |requested: &Requested, config: &str| {
            dependencies(&Config::parse(config), requested, source.path()).unwrap()
        };
        assert!(found(&requested, "").is_empty());
        requested.whole = Some(fragment("my.config", ""));
        assert_eq!(found(&requested, ""), ["CONFIG_DEBUG".to_owned()].into());
        assert!(found(&requested, "CONFIG_SCHED=y\n").is_empty());
    }
}
