//! Scenarios: each states one behavior of the kernel as what a correct kernel does.
//!
//! A YAML file is parsed here, once, into a complete and consistent [`Scenario`]. A scenario
//! that every guest would satisfy (`vacuity`), or none (`feasible`), is refused.

mod assertion;
mod assertions;
mod error;
mod extent;
mod facts;
mod feasible;
mod grammar;
mod home;
mod model;
mod name;
mod problems;
mod quantity;
mod raw;
mod reference;
mod regions;
mod resolve;
mod since;
mod spelling;
mod steps;
mod tasks;
mod tunables;
mod vacuity;
mod yaml;

use camino::Utf8Path;

pub use assertion::{Assertion, Bound, Observable, Unit};
pub use error::{Problem, ReadError, ScenarioError};
pub use model::Scenario;
pub use numalab_kernels::yaml::Place;
pub use reference::reference;
pub use since::{DoesNotApply, Release, Since};
pub(crate) use spelling::is_known_counter;

impl Scenario {
    /// Loads a scenario file, whose name consists of the folder's and its own.
    ///
    /// # Errors
    /// The file cannot be read, or is not a valid scenario.
    pub fn load(file: &Utf8Path) -> miette::Result<Scenario> {
        let text =
            numalab_kernels::files::read_text(file.as_std_path()).map_err(|source| ReadError {
                file: file.to_string(),
                source,
            })?;
        Ok(Scenario::parse(file, &text)?)
    }

    /// Parses the text of a scenario; `file` gives its name and appears in messages.
    ///
    /// # Errors
    /// The text is not a valid scenario; all mistakes are reported at once.
    pub fn parse(file: &Utf8Path, text: &str) -> Result<Scenario, ScenarioError> {
        // Some editors begin a file with a byte order mark.
        resolve::resolve(file, text.strip_prefix('\u{feff}').unwrap_or(text))
    }
}

/// The JSON schema of a scenario file, for editors.
pub fn schema() -> serde_json::Value {
    raw::schema()
}

#[cfg(test)]
mod tests;
