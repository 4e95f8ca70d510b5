//! The reference of the scenario language, rendered from the schema.

use std::fmt::Write as _;

use serde_json::Value;

use super::facts::FACTS;
use super::grammar::{ACTION, ASSERTION};
use super::raw::schema;
use super::tunables;
use crate::guest::fault_kind;

/// The text around the tables. A line `{{mapping: key key ..}}` stands for a table of keys,
/// `{{values mapping}}` for one of the values of a key, and other such lines for those below.
const TEMPLATE: &str = include_str!("reference.md");

/// The reference of the scenario language, in Markdown.
pub fn reference() -> String {
    let schema = schema();
    let mut text = String::new();
    for line in TEMPLATE.lines() {
        let table = line
            .strip_prefix("{{")
            .and_then(|line| line.strip_suffix("}}"));
        match table {
            None => text.push_str(line),
            Some("facts") => pairs(&mut text, ["Fact", "Meaning"], FACTS),
            Some("tunables") => pairs(&mut text, ["Name", "Unit of `value`"], tunables::units()),
            Some("faults") => pairs(&mut text, ["Kind", "Messages"], fault_kind::table()),
            Some(table) => match table.split_once(": ") {
                Some((mapping, keys)) => rows(&mut text, &schema, mapping, keys),
                None => {
                    let mapping = table.trim_start_matches("values ");
                    pairs(&mut text, ["Value", "Meaning"], values(&schema, mapping));
                }
            },
        }
        text.push('\n');
    }
    text
}

fn pairs<A: AsRef<str>, B: AsRef<str>>(
    text: &mut String,
    [left, right]: [&str; 2],
    rows: impl IntoIterator<Item = (A, B)>,
) {
    // Writing to a string cannot fail.
    let _ = write!(text, "| {left} | {right} |\n| --- | --- |");
    for (left, right) in rows {
        let right = right.as_ref().replace('|', "\\|");
        let _ = write!(text, "\n| `{}` | {right} |", left.as_ref());
    }
}

fn mapping<'a>(schema: &'a Value, name: &str) -> &'a Value {
    if name == "scenario" {
        schema
    } else {
        &schema["$defs"][name]
    }
}

/// A table of keys of a mapping.
fn rows(text: &mut String, schema: &Value, name: &str, keys: &str) {
    let mapping = mapping(schema, name);
    let required = mapping["required"].as_array();
    text.push_str("| Key | Value | Default | Meaning |\n| --- | --- | --- | --- |");
    for key in keys.split(' ') {
        let property = &mapping["properties"][key];
        let is_required = required.is_some_and(|keys| keys.iter().any(|other| other == key));
        let default = match &property["default"] {
            _ if is_required => "required".to_owned(),
            Value::Null => String::new(),
            Value::String(default) => format!("`{default}`"),
            Value::Array(_) | Value::Object(_) => "none".to_owned(),
            default => format!("`{default}`"),
        };
        let mut value = kind(property);
        if let Some(example) = property["examples"].get(0) {
            let example = match example {
                Value::String(example) => example.clone(),
                example => example.to_string().replace(',', ", "),
            };
            let _ = write!(value, ", such as `{example}`");
        }
        let mut meaning = one_line(&property["description"]);
        let grammar = match name {
            "action" => Some(&ACTION),
            "assertion" => Some(&ASSERTION),
            _ => None,
        };
        let mut modifiers = grammar.into_iter().flat_map(|grammar| grammar.modifiers);
        if let Some((_, heads)) = modifiers.find(|(modifier, _)| *modifier == key && key != "task")
        {
            let heads: Vec<String> = heads.iter().map(|head| format!("`{head}`")).collect();
            let _ = write!(meaning, " Goes with {}.", heads.join(", "));
        }
        let _ = write!(text, "\n| `{key}` | {value} | {default} | {meaning} |");
    }
}

/// What kind of value a key takes.
fn kind(property: &Value) -> String {
    if let Some(format) = property["format"]
        .as_str()
        .filter(|format| !is_number(format))
    {
        return format.to_owned();
    }
    // An optional value: it, or null.
    let property = property["anyOf"].get(0).unwrap_or(property);
    if let Some(name) = property["$ref"]
        .as_str()
        .and_then(|name| name.rsplit('/').next())
    {
        return format!("[{name}](#{name})");
    }
    let kinds = match &property["type"] {
        Value::Array(kinds) => kinds.first().and_then(Value::as_str),
        kind => kind.as_str(),
    };
    match kinds {
        Some("string") => "text".to_owned(),
        Some("integer") => "number".to_owned(),
        Some("boolean") => "`true` or `false`".to_owned(),
        Some("array") => format!("list of {}", kind(&property["items"])),
        Some("object") => format!(
            "mapping of names to {}",
            kind(&property["additionalProperties"])
        ),
        _ => "value".to_owned(),
    }
}

/// Formats that schemars gives numbers by itself.
fn is_number(format: &str) -> bool {
    matches!(format, "uint8" | "uint32" | "uint64" | "int64")
}

/// The values of a key that takes one of a few.
fn values(schema: &Value, name: &str) -> Vec<(String, String)> {
    let values = mapping(schema, name)["oneOf"].as_array();
    let values = values.into_iter().flatten().map(|value| {
        let name = value["const"].as_str().unwrap_or_default().to_owned();
        (name, one_line(&value["description"]))
    });
    values.collect()
}

fn one_line(description: &Value) -> String {
    let description = description.as_str().unwrap_or_default();
    description.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::scenario::Scenario;

    #[test]
    fn every_key_and_value_has_a_row() {
        let schema = schema();
        let reference = reference();
        let defs = schema["$defs"].as_object().unwrap();
        let all = defs.iter().map(|(name, def)| (name.as_str(), def));
        for (name, def) in all.chain([("scenario", &schema)]) {
            let keys = def["properties"].as_object();
            let keys: BTreeSet<&str> = keys.into_iter().flatten().map(|(key, _)| &**key).collect();
            let table = format!("{{{{{name}: ");
            let tables = TEMPLATE
                .lines()
                .filter_map(|line| line.strip_prefix(&*table));
            let shown = tables.flat_map(|keys| keys.trim_end_matches('}').split(' '));
            assert_eq!(shown.collect::<BTreeSet<&str>>(), keys, "{name}");
            for (value, meaning) in values(&schema, name) {
                let meaning = meaning.replace('|', "\\|");
                assert!(
                    reference.contains(&format!("| `{value}` | {meaning} |")),
                    "{name} {value}"
                );
            }
        }
        assert!(!reference.contains("{{") && !reference.contains("|  | |"));
        assert!(
            !reference.contains("| value"),
            "a kind of value without a name"
        );
    }

    #[test]
    fn the_example_of_the_reference_can_be_run() {
        let (_, example) = TEMPLATE.split_once("```yaml\n").unwrap();
        let (example, _) = example.split_once("```").unwrap();
        let scenario = Scenario::parse("own/example.yaml".into(), example);
        assert_eq!(
            scenario
                .map_err(|error| error.problems)
                .unwrap()
                .guards
                .len(),
            1
        );
    }
}
