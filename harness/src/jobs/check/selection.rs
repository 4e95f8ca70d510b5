//! Selects scenarios by what a patch touches.

use std::collections::BTreeSet;

use numalab_kernels::patch::Touched;
use serde::{Deserialize, Serialize};

use crate::scenario::Scenario;

/// A scenario that is run, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Selected {
    /// `suite/scenario`.
    pub scenario: String,
    /// Why.
    pub because: String,
}

/// The scenarios that declare a function or file that is touched, each with the reason.
pub fn touching<'a>(scenarios: &'a [Scenario], touched: &Touched) -> Vec<(&'a Scenario, Selected)> {
    let selected = scenarios.iter().filter_map(|scenario| {
        let because = scenario
            .subject
            .iter()
            .find_map(|subject| touched.why(subject))?;
        let selected = Selected {
            scenario: scenario.name.clone(),
            because,
        };
        Some((scenario, selected))
    });
    selected.collect()
}

/// Why no scenario was selected: what the series touches, and what the scenarios declare.
pub fn nothing(scenarios: &[Scenario], touched: &Touched) -> String {
    let files = touched.files.iter().map(|file| {
        let functions: Vec<&str> = file.functions.iter().map(String::as_str).collect();
        match &functions[..] {
            [] => file.path.clone(),
            functions => format!("{} ({})", file.path, functions.join(", ")),
        }
    });
    let files: Vec<String> = files.collect();
    let declared: BTreeSet<&str> = scenarios
        .iter()
        .flat_map(|scenario| &scenario.subject)
        .map(String::as_str)
        .collect();
    let or_nothing = |list: String| match list.is_empty() {
        true => "nothing".to_owned(),
        false => list,
    };
    let declared = declared.into_iter().collect::<Vec<_>>().join(", ");
    format!(
        "no scenario declares a function or file that the series touches\n  the series touches: {}\n  \
         the scenarios declare: {}\nwithout --touching, all scenarios are run",
        or_nothing(files.join(", ")),
        or_nothing(declared),
    )
}
