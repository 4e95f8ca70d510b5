//! Coverage as text.

use std::fmt::Write as _;

use numalab_kernels::profile::Side;

use super::lines::limits;
use super::{Coverage, Executed};
use crate::guest::escape::escape;

/// The most characters of a line of code that are shown.
const WIDTH: usize = 60;

/// A table of the changed lines with how often each ran.
pub fn coverage(coverage: &Coverage) -> String {
    let mut text = String::from(
        "how often the changed lines ran (before the first step, then in each scenario):\n",
    );
    for (index, known) in coverage.scenarios.iter().enumerate() {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "  [{}] {}", index + 1, known.scenario);
    }
    for file in &coverage.files {
        let limits = limits(file.counted).map_or(String::new(), |limits| format!(" ({limits})"));
        let (sign, side) = match file.side {
            Side::Base => ('-', ", removed lines, counted on the base"),
            Side::Patched => ('+', ""),
        };
        let path = escape(file.path.as_bytes());
        let _ = writeln!(text, "  {path}{side}{limits}");
        let _ = write!(text, "  {:>7} {:>9}", "line", "boot");
        for index in 0..coverage.scenarios.len() {
            let _ = write!(text, " {:>9}", format!("[{}]", index + 1));
        }
        text.push('\n');
        for line in &file.lines {
            let number = format!("{sign}{}", line.line);
            let _ = write!(text, "  {number:>7} {:>9}", count(line.boot));
            for known in &coverage.scenarios {
                let shown = line.steps.get(&known.scenario);
                let shown = shown.map_or("?".into(), |shown| count(*shown));
                let _ = write!(text, " {shown:>9}");
            }
            let code: String = line.text.replace('\t', "  ").chars().take(WIDTH).collect();
            let _ = writeln!(text, "  {}", escape(code.as_bytes()));
        }
    }
    for known in &coverage.scenarios {
        if let (Executed::Unknown, Some(because)) = (known.executed, &known.because) {
            let (name, because) = (&known.scenario, escape(because.as_bytes()));
            let _ = writeln!(text, "unknown whether {name} ran a changed line: {because}");
        }
    }
    text
}

/// `-` for a line without code.
fn count(count: Option<u64>) -> String {
    count.map_or("-".into(), |count| count.to_string())
}
