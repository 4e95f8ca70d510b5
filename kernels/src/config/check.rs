//! Whether Kconfig granted what was requested.
//!
//! Kconfig silently drops an option whose dependencies do not allow it. Each option that
//! a fragment names is therefore looked up in the final configuration.

use std::collections::BTreeSet;
use std::path::Path;

use super::error::{ConfigError, Refused};
use super::file::Config;
use super::kconfig;
use super::requested::{Absence, Requested};

/// Checks that all that was asked for was granted. Returns the options that do not
/// exist in this version of the source, as warnings.
pub(crate) fn check(
    config: &Config,
    requested: &Requested,
    source: &Path,
) -> Result<Vec<String>, ConfigError> {
    let differing: Vec<_> = requested
        .options
        .iter()
        .filter_map(|(option, asked)| {
            let got = config.value(option).unwrap_or("n");
            // An option that is asked to be off and does not exist is off; but one that
            // the user asked for may be misspelt.
            let doubtful =
                asked.absence == Absence::Wrong && got == "n" && !config.mentions(option);
            (doubtful || !same(&asked.value, got)).then_some((option, asked, got))
        })
        .collect();
    if differing.is_empty() {
        return Ok(Vec::new());
    }
    let symbols =
        kconfig::Symbols::find(source, differing.iter().map(|(option, ..)| option.as_str()))?;
    let mut warnings = Vec::new();
    let mut refused = Vec::new();
    for (option, asked, got) in differing {
        let known = config.mentions(option);
        let refuse = |exists, because| Refused {
            option: option.clone(),
            asked: asked.value.clone(),
            got: got.to_owned(),
            origin: asked.origin.clone(),
            exists,
            because,
        };
        match (symbols.get(option), asked.absence) {
            (None, Absence::Fine) if !known => {}
            (None, Absence::Told) if !known => warnings.push(format!(
                "{option} ({}) does not exist in this version of the source",
                asked.origin
            )),
            (None, Absence::Wrong) if !known => {
                let hint =
                    kconfig::nearest(source, option)?.map(|name| format!("; did you mean {name}?"));
                refused.push(refuse(false, hint.unwrap_or_default()));
            }
            _ if same(&asked.value, got) => {}
            (symbol, _) => {
                let because =
                    symbol.map_or_else(String::new, |symbol| symbol.explain(option, config));
                refused.push(refuse(true, because));
            }
        }
    }
    if refused.is_empty() {
        Ok(warnings)
    } else {
        Err(ConfigError::Refused { refused })
    }
}

/// What became of a whole configuration that was asked for, in sentences: which of its
/// options the fragments changed, and which are otherwise because this source wants it
/// so.
pub(crate) fn changes(config: &Config, requested: &Requested) -> Vec<String> {
    const SHOWN: usize = 12;
    let Some(whole) = &requested.whole else {
        return Vec::new();
    };
    let before = Config::parse(&whole.text);
    let was = |option: &str| before.value(option).unwrap_or("n").to_owned();
    let is = |option: &str| config.value(option).unwrap_or("n").to_owned();
    let asked = requested.options.keys();
    let changed: Vec<String> = asked
        .filter(|option| !same(&is(option), &was(option)))
        .map(|option| format!("{option}={} (was {})", is(option), was(option)))
        .collect();
    let others: BTreeSet<&String> = before
        .values
        .keys()
        .filter(|option| {
            !requested.options.contains_key(*option) && !same(&was(option), &is(option))
        })
        .collect();
    let (modules, others): (Vec<&String>, Vec<&String>) =
        others.into_iter().partition(|option| was(option) == "m");
    let mut notes = Vec::new();
    if !changed.is_empty() {
        notes.push(format!(
            "{}: added or changed for the guest: {}",
            whole.name,
            changed.join(", ")
        ));
    }
    if !modules.is_empty() {
        notes.push(format!(
            "{}: {} options that make modules are off, for a guest loads none",
            whole.name,
            modules.len()
        ));
    }
    if !others.is_empty() {
        let shown: Vec<String> = others
            .iter()
            .take(SHOWN)
            .map(|option| format!("{option}={} (was {})", is(option), was(option)))
            .collect();
        let more = match others.len().saturating_sub(SHOWN) {
            0 => String::new(),
            more => format!(", and {more} more"),
        };
        notes.push(format!(
            "{}: otherwise in this version of the source, or with this compiler: {}{more}",
            whole.name,
            shown.join(", ")
        ));
    }
    notes
}

/// Whether two values mean the same: Kconfig writes hexadecimal numbers its own way,
/// and an empty text may stand without quotes.
fn same(asked: &str, got: &str) -> bool {
    let number = |text: &str| {
        let digits = text
            .strip_prefix("0x")
            .or_else(|| text.strip_prefix("0X"))?;
        u64::from_str_radix(digits, 16).ok()
    };
    // An empty text and one that is not there: both give nothing.
    let empty = |text: &str| text == "n" || text == "\"\"";
    asked == got
        || (number(asked).is_some() && number(asked) == number(got))
        || (asked == "\"\"" && empty(got))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::REQUIRED;
    use crate::spec::Fragment;

    fn fragment(name: &str, text: &str) -> Fragment {
        Fragment {
            name: name.to_owned(),
            text: text.to_owned(),
        }
    }

    #[test]
    fn what_completes_a_whole_configuration_has_all_that_guests_need() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("fragments/contract.config");
        let text = std::fs::read_to_string(path).unwrap();
        let requested = Requested::read(&[fragment("contract", &text)]).unwrap();
        for (option, _) in REQUIRED {
            assert_eq!(requested.options[*option].value, "y", "{option}");
        }
    }

    #[test]
    fn what_became_of_a_whole_configuration_is_told() {
        let whole = "CONFIG_A=y\nCONFIG_OLD=y\nCONFIG_M=m\nCONFIG_HZ=0x10\n";
        let mut requested =
            Requested::read(&[fragment("contract", "CONFIG_A=y\nCONFIG_NUMA=y\n")]).unwrap();
        requested.whole = Some(fragment("my.config", whole));
        let config = Config::parse("CONFIG_A=y\nCONFIG_NUMA=y\nCONFIG_HZ=0x0010\n");
        assert_eq!(
            changes(&config, &requested),
            [
                "my.config: added or changed for the guest: CONFIG_NUMA=y (was n)",
                "my.config: 1 options that make modules are off, for a guest loads none",
                "my.config: otherwise in this version of the source, or with this compiler: \
                 CONFIG_OLD=n (was y)",
            ]
        );
    }

    #[test]
    fn hexadecimal_numbers_are_compared_as_numbers() {
        assert!(same("0x1000000", "0x01000000"));
        assert!(!same("0x10", "16"));
        // Kconfig writes no line for a text that depends on what is off.
        assert!(same("\"\"", "n"));
        assert!(!same("n", "\"a\"") && !same("\"a\"", "n"));
    }
}
