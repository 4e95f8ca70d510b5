//! What is asked for: the options of some fragments, and a whole configuration if there is
//! one. Whether they are granted is looked at elsewhere.

use std::collections::BTreeMap;

use super::error::ConfigError;
use super::file::Config;
use super::option::{is_option, is_value};
use crate::spec::{Fragment, Recipe};

/// Begins a comment of a fragment: the option in the next line need not exist in every
/// version of the source. Where it exists it has to be granted like any other.
const WHERE_IT_EXISTS: &str = "# where it exists";

/// Options of which a later release made another one a condition: to ask for the first is
/// to ask for the second, where it exists. 7.2 has split `NUMA_MIGRATION` (pages may go to
/// another node) off `MIGRATION`.
const CONDITIONS: &[(&str, &str)] = &[("CONFIG_NUMA_BALANCING", "CONFIG_NUMA_MIGRATION")];

/// What it means that a source does not have an option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Absence {
    /// Nothing: the fragment says so.
    Fine,
    /// It is told.
    Told,
    /// The user asked for something that cannot be.
    Wrong,
}

/// An option as it was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Asked {
    pub(super) value: String,
    /// The fragment and line.
    pub(super) origin: String,
    pub(super) absence: Absence,
}

/// The options of some fragments, the last mention of each, and the whole configuration
/// that they change, if there is one.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Requested {
    pub(super) options: BTreeMap<String, Asked>,
    pub(super) whole: Option<Fragment>,
}

impl Requested {
    /// Reads what a recipe asks for.
    pub(crate) fn of(recipe: &Recipe) -> Result<Self, ConfigError> {
        let mut requested = Self::read(&recipe.fragments)?;
        requested.add(&recipe.own, Absence::Wrong)?;
        requested.whole.clone_from(&recipe.config);
        Ok(requested)
    }

    /// Reads fragments; later ones win.
    pub fn read(fragments: &[Fragment]) -> Result<Self, ConfigError> {
        let mut requested = Self::default();
        requested.add(fragments, Absence::Told)?;
        Ok(requested)
    }

    fn add(&mut self, fragments: &[Fragment], absence: Absence) -> Result<(), ConfigError> {
        for fragment in fragments {
            // Of the next line.
            let mut next = absence;
            let mut lines: BTreeMap<&str, (usize, &str)> = BTreeMap::new();
            for (index, text) in fragment.text.lines().enumerate() {
                let line = index + 1;
                let text = text.trim_end();
                let unset = text
                    .strip_prefix("# ")
                    .and_then(|rest| rest.strip_suffix(" is not set"));
                let (option, value) = match (unset, text.split_once('=')) {
                    (Some(option), _) => (option, "n"),
                    (None, _)
                        if text.is_empty() || (text.starts_with('#') && !is_misspelt(text)) =>
                    {
                        next = if text.starts_with(WHERE_IT_EXISTS) {
                            Absence::Fine
                        } else {
                            absence
                        };
                        continue;
                    }
                    (None, Some((option, value))) if !value.is_empty() => (option, value),
                    _ => ("", ""),
                };
                if !is_option(option) {
                    return Err(ConfigError::Syntax {
                        fragment: fragment.name.clone(),
                        line,
                        text: text.chars().take(200).collect(),
                    });
                }
                if !is_value(value) {
                    return Err(ConfigError::Value {
                        fragment: fragment.name.clone(),
                        line,
                        option: option.to_owned(),
                        value: value.chars().take(200).collect(),
                    });
                }
                if let Some((earlier_line, earlier)) = lines.insert(option, (line, value))
                    && earlier != value
                {
                    return Err(ConfigError::Twice {
                        fragment: fragment.name.clone(),
                        line,
                        option: option.to_owned(),
                        value: value.to_owned(),
                        earlier_line,
                        earlier: earlier.to_owned(),
                    });
                }
                let asked = Asked {
                    value: value.to_owned(),
                    origin: format!("{}:{line}", fragment.name),
                    absence: next,
                };
                next = absence;
                self.options.insert(option.to_owned(), asked);
            }
        }
        Ok(())
    }

    /// What Kconfig is given: all of it, and what follows from it. The latter is no part of
    /// what names a kernel, for the source and the former decide it.
    pub(crate) fn given(&self) -> String {
        let mut text = self.text();
        for (option, condition) in CONDITIONS {
            let asked = self.options.get(*option);
            if asked.is_some_and(|asked| asked.value == "y")
                && !self.options.contains_key(*condition)
            {
                text.push_str(&format!("{condition}=y\n"));
            }
        }
        text
    }

    /// One fragment with all of it, sorted by option: the same request is the same
    /// text, however it is split into fragments.
    pub fn text(&self) -> String {
        self.options
            .iter()
            .map(|(option, asked)| match asked.value.as_str() {
                "n" => format!("# {option} is not set\n"),
                value => format!("{option}={value}\n"),
            })
            .collect()
    }

    /// The whole configuration that is changed, as a text.
    pub(crate) fn whole(&self) -> Option<&str> {
        self.whole.as_ref().map(|whole| whole.text.as_str())
    }

    /// All that decides what configuration comes out. A comment in a whole configuration
    /// decides nothing.
    pub(crate) fn identity(&self) -> String {
        let Some(whole) = self.whole() else {
            return self.text();
        };
        let whole = Config::parse(whole).values;
        let lines = whole
            .iter()
            .map(|(name, value)| format!("{name}={value}\n"));
        format!("{}whole:\n{}", self.text(), lines.collect::<String>())
    }

    /// Options that must exist: whether a configuration was checked depends on them, too.
    pub(crate) fn musts(&self) -> String {
        let wrong = self
            .options
            .iter()
            .filter(|(_, asked)| asked.absence == Absence::Wrong);
        wrong.map(|(option, _)| format!("{option}\n")).collect()
    }
}

/// Whether a comment was meant to be `# CONFIG_X is not set`.
fn is_misspelt(comment: &str) -> bool {
    let mut words = comment.trim_start_matches('#').split_whitespace();
    words.next().is_some_and(is_option) && words.next() == Some("is") && words.next() == Some("not")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fragment(name: &str, text: &str) -> Fragment {
        Fragment {
            name: name.to_owned(),
            text: text.to_owned(),
        }
    }

    #[test]
    fn later_fragments_win_and_splitting_changes_nothing() {
        let split = Requested::read(&[
            fragment("a", "CONFIG_A=y\nCONFIG_B=64\n# a comment\n"),
            fragment("b", "# CONFIG_A is not set\nCONFIG_C=\"\"\n"),
        ])
        .unwrap();
        let whole = Requested::read(&[fragment(
            "c",
            "CONFIG_C=\"\"\nCONFIG_B=64\n# CONFIG_A is not set\n",
        )])
        .unwrap();
        assert_eq!(split.text(), whole.text());
        assert_eq!(
            split.text(),
            "# CONFIG_A is not set\nCONFIG_B=64\nCONFIG_C=\"\"\n"
        );
    }

    #[test]
    fn a_line_that_is_no_option_is_told_with_its_place() {
        for (text, line) in [
            ("CONFIG_A=y\nCONFIG_B\n", 2),
            ("CONFIG_A=\n", 1),
            ("A=y\n", 1),
            ("# CONFIG_A is on here\n# CONFIG_A is not sett\n", 2),
            ("# CONFIG_A=y\n#CONFIG_A is not set\n", 2),
        ] {
            let error = Requested::read(&[fragment("guest", text)]).unwrap_err();
            assert!(
                error.to_string().starts_with(&format!("guest:{line}: ")),
                "{error}"
            );
        }
    }

    #[test]
    fn a_value_that_no_option_has_is_told_before_anything_is_configured() {
        for value in [
            "y",
            "m",
            "n",
            "64",
            "-1",
            "0x1f",
            "ffff",
            "\"\"",
            "\"a b=c\"",
        ] {
            let read = Requested::read(&[fragment("a", &format!("CONFIG_A={value}\n"))]);
            assert!(read.is_ok(), "{value}");
        }
        for value in ["q", "yes", "Y", "\"", "text", "0x", "1 2", "y # comment"] {
            let error = Requested::read(&[fragment("a", &format!("\nCONFIG_A={value}\n"))]);
            let said = error.unwrap_err().to_string();
            assert!(said.starts_with("a:2: CONFIG_A cannot be "), "{said}");
        }
    }

    #[test]
    fn an_option_with_two_values_in_one_fragment_is_an_error() {
        let read = |text: &str| Requested::read(&[fragment("a", text)]);
        let error = read("CONFIG_A=y\nCONFIG_B=y\n# CONFIG_A is not set\n").unwrap_err();
        assert_eq!(
            error.to_string(),
            "a:3: CONFIG_A is n here and y in line 1: remove one of the lines"
        );
        assert!(read("CONFIG_A=y\nCONFIG_A=y\n").is_ok());
    }

    #[test]
    fn a_mark_is_of_the_next_option_alone() {
        let requested = Requested::read(&[fragment(
            "a",
            "# where it exists (since v6.12):\nCONFIG_A=y\nCONFIG_B=y\n# where it exists\n\nCONFIG_C=y\n",
        )])
        .unwrap();
        let marked = |option: &str| requested.options[option].absence == Absence::Fine;
        assert_eq!(
            ["CONFIG_A", "CONFIG_B", "CONFIG_C"].map(marked),
            [true, false, false]
        );
    }

    #[test]
    fn a_shipped_fragment_may_say_that_not_every_source_has_an_option() {
        let requested = Requested::read(&[fragment(
            "a",
            "# where it exists:\nCONFIG_A=y\nCONFIG_B=y\n",
        )])
        .unwrap();
        assert_eq!(requested.text(), "CONFIG_A=y\nCONFIG_B=y\n");
        let source = tempfile::tempdir().unwrap();
        std::fs::write(source.path().join("Kconfig"), "config C\n\tbool\n").unwrap();
        let warnings = crate::config::check(&Config::default(), &requested, source.path()).unwrap();
        assert_eq!(
            warnings,
            ["CONFIG_B (a:3) does not exist in this version of the source"]
        );
    }

    #[test]
    fn a_condition_is_asked_for_with_what_needs_it() {
        let given = |text: &str| Requested::read(&[fragment("a", text)]).unwrap().given();
        assert_eq!(
            given("CONFIG_NUMA_BALANCING=y\n"),
            "CONFIG_NUMA_BALANCING=y\nCONFIG_NUMA_MIGRATION=y\n"
        );
        for text in [
            "# CONFIG_NUMA_BALANCING is not set\n",
            "CONFIG_NUMA=y\n",
            "CONFIG_NUMA_BALANCING=y\n# CONFIG_NUMA_MIGRATION is not set\n",
        ] {
            assert_eq!(given(text), text);
        }
    }
}
