//! A check as text, for a terminal and for `report.txt`.

use std::fmt::Write as _;

use super::conclusion::numbers;
use super::report::{CheckReport, DebugPass, Step, StepState};
use crate::guest::escape::escape;
use crate::jobs::{coverage, divergence};
use crate::report::{quote, text};
use crate::verdict::compare::Change;

/// The most lines of a compiler's messages.
const LINES: usize = 12;

/// A check.
pub fn check(report: &CheckReport) -> String {
    let mut all = String::new();
    let series = &report.series;
    let title = series.title.as_deref().unwrap_or(&series.name);
    let verb = if series.reverted {
        "reverted"
    } else {
        "applied"
    };
    // Writing to a string cannot fail.
    let _ = writeln!(
        all,
        "{}: {} {verb}",
        escape(title.as_bytes()),
        match series.patches.len() {
            1 => "1 patch".to_owned(),
            count => format!("{count} patches"),
        }
    );
    for note in &series.notes {
        let _ = writeln!(all, "note: {}", escape(note.as_bytes()));
    }
    for selected in &report.selected {
        let _ = writeln!(all, "{}: {}", selected.scenario, selected.because);
    }
    all.push_str(&text::comparison_body(&report.whole));
    for unchanged in &report.unchanged {
        let _ = writeln!(
            all,
            "  {}: {}",
            escape(unchanged.file.as_bytes()),
            escape(unchanged.because.as_bytes())
        );
    }
    if let Some(warnings) = report.new_warnings.as_ref().filter(|all| !all.is_empty()) {
        all.push_str("\ncompiler warnings that only the patched kernel's build prints\n");
        for warning in warnings {
            let line = warning
                .line
                .map_or(String::new(), |line| format!("{line}:"));
            let text = format!("{}:{line} {}", warning.file, warning.text);
            let _ = writeln!(all, "  {}", escape(text.as_bytes()));
        }
    }
    if let Some(coverage) = &report.coverage {
        let _ = write!(all, "\n{}", coverage::text::coverage(coverage));
    }
    if let Some(because) = &report.uncovered {
        let _ = writeln!(all, "\n{}", escape(because.as_bytes()));
    }
    if !report.divergences.is_empty() {
        let text = divergence::text::divergences(&report.divergences);
        let _ = write!(all, "\n{text}");
    }
    if !report.each.is_empty() {
        all.push_str("\neach patch, compared with the kernel below it\n");
        for step in &report.each {
            all.push_str(&self::step(step));
        }
    }
    if let Some(debug) = &report.debug {
        all.push_str(&self::debug(debug));
    }
    all.push_str(&text::comparison_notes(&report.whole));
    let _ = writeln!(all, "\n{}", report.verdict);
    for sentence in &report.conclusions {
        let _ = writeln!(all, "  {}", escape(sentence.as_bytes()));
    }
    let _ = writeln!(all, "repeat: {}", report.repeat);
    all
}

fn step(step: &Step) -> String {
    let mut all = String::new();
    let patch = &step.patch;
    let without = match &step.without[..] {
        [] => String::new(),
        left_out => format!(", without {}", numbers(left_out)),
    };
    let _ = writeln!(
        all,
        "  {}/{} {}{without}",
        patch.number,
        patch.of,
        escape(patch.subject.as_bytes())
    );
    match &step.state {
        StepState::NotBuilt(why) => {
            all.push_str("    does not build\n");
            all.push_str(&indented(why));
        }
        StepState::NotApplied(why) => {
            all.push_str("    cannot be checked: it does not apply\n");
            all.push_str(&indented(why));
        }
        StepState::Built(_) if step.word == Change::ChangesNothing => {
            all.push_str("    this configuration builds nothing that it changes\n");
        }
        StepState::Built(_) => {
            for word in [
                Change::Broken,
                Change::Unclear,
                Change::Fixed,
                Change::StillFailing,
                Change::Holds,
                Change::DoesNotApply,
            ] {
                let alike = step.scenarios.iter().filter(|one| one.word == word);
                let named: Vec<&str> = alike.map(|one| one.scenario.as_str()).collect();
                if !named.is_empty() {
                    let _ = writeln!(all, "    {word}: {}", named.join(", "));
                }
            }
            let differences = step
                .scenarios
                .iter()
                .map(|one| (one.scenario.as_str(), &one.faults));
            for line in quote::differences(differences).lines() {
                let _ = writeln!(all, "    {line}");
            }
            for one in step
                .scenarios
                .iter()
                .filter(|one| one.word == Change::Broken)
            {
                for (subject, base, patched, wanted) in text::deciding(one) {
                    // A guest that broke off has no value.
                    if patched == "?" {
                        continue;
                    }
                    let _ = writeln!(
                        all,
                        "      {subject}: {base} -> {patched}, expected {wanted}"
                    );
                }
            }
        }
    }
    all
}

fn debug(pass: &DebugPass) -> String {
    let mut all = String::new();
    let seeds: Vec<String> = pass.seeds.iter().map(ToString::to_string).collect();
    let _ = writeln!(
        all,
        "\ndebug kernels (lockdep, DEBUG_VM, KASAN, kmemleak), seed {}; only what they print is \
         compared, not their counters",
        seeds.join(" ")
    );
    if let Some(why) = &pass.not_built {
        all.push_str("  the patched kernel does not build\n");
        all.push_str(&indented(why));
    }
    for one in &pass.scenarios {
        let words = match one.word {
            Change::Holds => "nothing new".to_owned(),
            word => word.to_string(),
        };
        let _ = writeln!(all, "  {}: {words}", one.scenario);
        if one.word == Change::Unclear {
            for run in one.base.iter().chain(&one.patched) {
                if run.counters.is_none() {
                    let _ = writeln!(
                        all,
                        "    {}: {}",
                        run.inputs.kernel.name,
                        escape(run.ending.as_bytes())
                    );
                }
            }
        }
    }
    let differences = pass
        .scenarios
        .iter()
        .map(|one| (one.scenario.as_str(), &one.faults));
    all.push_str(&quote::differences(differences));
    all
}

fn indented(words: &str) -> String {
    let mut all = String::new();
    for line in words.lines().take(LINES) {
        let _ = writeln!(all, "    | {}", escape(line.as_bytes()));
    }
    all
}
