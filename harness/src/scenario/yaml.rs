//! From YAML to the raw scenario, with words and a place for what the deserializer refuses.

use std::collections::BTreeSet;

use super::grammar::{ACTION, ASSERTION, Grammar};
use super::raw::RawScenario;
use crate::suggest;
use numalab_kernels::yaml::{Index, Place};

/// The most characters of the deserializer's message that are shown: it quotes strings whole.
const LONGEST: usize = 300;

/// What the deserializer refuses.
#[derive(Debug)]
pub(super) struct Mistake {
    pub(super) place: Place,
    pub(super) message: String,
    pub(super) help: String,
}

/// Reads a text. Aliases and merge keys (`<<`) are resolved.
pub(super) fn read(text: &str, index: &Index) -> Result<RawScenario, Mistake> {
    if !text.contains("<<") {
        return serde_yaml::from_str(text).map_err(|error| mistake(&error, index, false));
    }
    let merged = merge(text).map_err(|error| mistake(&error, index, false))?;
    serde_yaml::from_str(&merged).map_err(|error| mistake(&error, index, true))
}

/// The text with the keys that `<<` merges into their mappings.
fn merge(text: &str) -> Result<String, serde_yaml::Error> {
    let mut value: serde_yaml::Value = serde_yaml::from_str(text)?;
    value.apply_merge()?;
    serde_yaml::to_string(&value)
}

/// Names a mistake. The places of a text whose keys were merged are not those of the file, but
/// the paths are.
fn mistake(error: &serde_yaml::Error, index: &Index, was_merged: bool) -> Mistake {
    let message = error.to_string();
    let message = message.split(" at line ").next().unwrap_or_default();
    let (path, rest) = match message.split_once(": ") {
        Some((path, rest)) if !path.contains([' ', '`']) => (path, rest),
        _ => ("", message),
    };
    let place = match error.location() {
        Some(at) if !was_merged => Place {
            line: at.line(),
            column: at.column(),
            length: 1,
        },
        _ => index.find(path),
    };
    if let Some((key, known)) = unknown_key(rest) {
        let full = if path.is_empty() {
            key.to_owned()
        } else {
            format!("{path}.{key}")
        };
        let mut given = index.keys(path);
        given.remove(key);
        let known: Vec<&str> = match grammar(path) {
            Some(grammar) => grammar.fitting(&given),
            None => known
                .into_iter()
                .filter(|key| !given.contains(*key))
                .collect(),
        };
        return Mistake {
            place: index.key(&full).unwrap_or(place),
            message: format!("unknown key `{key}`{}", within(path)),
            help: suggest::help(key, &known),
        };
    }
    let shown = match message.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{} ...", &message[..end]),
        None => message.to_owned(),
    };
    Mistake {
        place,
        message: shown,
        help: "`numalab schema --format markdown` prints what is allowed where".to_owned(),
    }
}

fn within(path: &str) -> String {
    match path {
        "" => String::new(),
        path => format!(" in {path}"),
    }
}

/// The key of the deserializer's message about an unknown one, and those that it expected.
fn unknown_key(message: &str) -> Option<(&str, BTreeSet<&str>)> {
    let rest = message.strip_prefix("unknown field `")?;
    let (key, expected) = rest.split_once('`')?;
    Some((key, expected.split('`').skip(1).step_by(2).collect()))
}

/// The grammar of the mapping at a path, if only some of its keys go together.
fn grammar(path: &str) -> Option<&'static Grammar> {
    let (list, _) = path.rsplit_once('[')?;
    if list == "guards" || list == "expect" {
        return Some(&ASSERTION);
    }
    let of_step = list.ends_with(".run") || list.ends_with(".prepare");
    of_step.then_some(&ACTION)
}
