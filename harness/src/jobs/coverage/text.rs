//! Coverage as text.

use std::fmt::Write as _;

use super::{Coverage, Exercise, limits};
use crate::guest::escape::escape;

/// The most characters of a line of code that are shown.
const WIDTH: usize = 60;

/// The changed lines with how often they ran, and what that means.
pub fn coverage(coverage: &Coverage) -> String {
    let mut text = format!(
        "changed lines that ran, on {} (before the first step, then in each scenario):\n",
        coverage.kernel
    );
    for (index, known) in coverage.scenarios.iter().enumerate() {
        let _ = writeln!(text, "  [{}] {}", index + 1, known.scenario);
    }
    for file in &coverage.files {
        let limits = limits(file.counted).map_or(String::new(), |limits| format!(" ({limits})"));
        let _ = writeln!(text, "  {}{limits}", escape(file.path.as_bytes()));
        let _ = write!(text, "  {:>7} {:>9}", "line", "boot");
        for index in 0..coverage.scenarios.len() {
            let _ = write!(text, " {:>9}", format!("[{}]", index + 1));
        }
        text.push('\n');
        for change in &file.changes {
            let _ = write!(text, "  {:>7} {:>9}", change.line, count(change.boot));
            for known in &coverage.scenarios {
                let seen = change.steps.get(&known.scenario);
                let shown = seen.map_or("?".into(), |seen| count(*seen));
                let _ = write!(text, " {shown:>9}");
            }
            let code: String = match &change.text {
                Some(code) => code.replace('\t', "  ").chars().take(WIDTH).collect(),
                None => "(lines after this one are removed)".into(),
            };
            let _ = writeln!(text, "  {}", escape(code.as_bytes()));
        }
    }
    for known in &coverage.scenarios {
        let name = &known.scenario;
        let _ = match (known.exercise, &known.because) {
            (Exercise::Exercised, _) => Ok(()),
            (Exercise::NotExercised, _) => writeln!(
                text,
                "not exercised: {name} ran none of the changed lines; that it holds proves nothing \
                 of this patch"
            ),
            (Exercise::Unknown, because) => writeln!(
                text,
                "not known whether {name} ran a changed line: {}",
                escape(
                    because
                        .as_deref()
                        .unwrap_or("nothing was counted")
                        .as_bytes()
                )
            ),
        };
    }
    text
}

/// `-` for what the compiler made no code of.
fn count(count: Option<u64>) -> String {
    count.map_or("-".into(), |count| count.to_string())
}
