//! Gathers what is wrong with a scenario, by path.

/// Problems by path, gathered while resolving.
#[derive(Debug, Default)]
pub(super) struct Problems {
    found: Vec<(String, String, Option<String>)>,
}

impl Problems {
    pub(super) fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.found.len()
    }

    /// The problems in the order in which they were found: path, message, help.
    pub(super) fn into_iter(self) -> impl Iterator<Item = (String, String, Option<String>)> {
        self.found.into_iter()
    }

    pub(super) fn add(&mut self, path: impl Into<String>, message: impl Into<String>) {
        self.found.push((path.into(), message.into(), None));
    }

    pub(super) fn add_with_help(
        &mut self,
        path: impl Into<String>,
        message: impl Into<String>,
        help: impl Into<String>,
    ) {
        self.found
            .push((path.into(), message.into(), Some(help.into())));
    }

    /// The value, or its message as a problem at `path`.
    pub(super) fn take<T>(&mut self, path: &str, result: Result<T, String>) -> Option<T> {
        result.map_err(|message| self.add(path, message)).ok()
    }

    /// An unknown name, with the nearest known one.
    pub(super) fn unknown<'a>(
        &mut self,
        path: &str,
        what: &str,
        name: &str,
        known: impl IntoIterator<Item = &'a str>,
    ) {
        let known: Vec<&str> = known.into_iter().collect();
        let help = crate::suggest::help(name, &known);
        self.add_with_help(path, format!("there is no {what} {name:?}"), help);
    }
}
