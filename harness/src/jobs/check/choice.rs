//! Choosing scenarios by what a patch touches.

use serde::{Deserialize, Serialize};

use super::touched::Touched;
use crate::scenario::Scenario;

/// A scenario that is run, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chosen {
    /// `suite/scenario`.
    pub scenario: String,
    /// Why.
    pub because: String,
}

/// The scenarios of which a declared subject is touched, each with the reason.
pub fn touching<'a>(scenarios: &'a [Scenario], touched: &Touched) -> Vec<(&'a Scenario, Chosen)> {
    let chosen = scenarios.iter().filter_map(|scenario| {
        let because = scenario
            .subject
            .iter()
            .find_map(|subject| touched.why(subject))?;
        let chosen = Chosen {
            scenario: scenario.name.clone(),
            because,
        };
        Some((scenario, chosen))
    });
    chosen.collect()
}
