//! A check as text to paste under a patch's `---` line: what was run, on which kernels, the
//! counters before and after, and the command that repeats it. Plain ASCII, in lines that are
//! short enough for mail.

use std::fmt::Write as _;

use super::report::CheckReport;
use crate::kernel_id::short;
use crate::report::{Compared, ComparisonReport, text};
use crate::verdict::compare::Change;

/// The longest line, so that a few marks of quoting still fit.
pub const WIDTH: usize = 75;

/// The text.
pub fn text(report: &CheckReport) -> String {
    let whole = &report.whole;
    let mut all = String::new();
    let seeds: Vec<String> = whole.seeds.iter().map(ToString::to_string).collect();
    all.push_str(&wrapped(
        &format!(
            "Tested with numalab {} on {} ({}): {} mode, {}, QEMU {}, guest image {}, seeds {}.",
            report.numalab,
            whole.base.name,
            whole.base.release,
            whole.mode,
            whole.accelerator,
            whole.qemu,
            short(&whole.image),
            seeds.join(" ")
        ),
        "",
    ));
    all.push('\n');
    all.push_str(&results(whole));
    for sentence in sentences(report) {
        all.push_str(&wrapped(&sentence, ""));
    }
    all.push('\n');
    all.push_str(&wrapped_command(&report.repeat));
    all
}

/// The scenarios with their counters.
fn results(whole: &ComparisonReport) -> String {
    let mut all = String::new();
    if let Some(overall) = &whole.overall {
        let because = overall.because.lines().next().unwrap_or_default();
        all.push_str(&wrapped(&format!("{}: {because}", overall.word), ""));
    }
    let exercised = |compared: &&Compared| compared.word != Change::NotExercised;
    for compared in whole.scenarios.iter().filter(exercised) {
        // Writing to a string cannot fail.
        let _ = writeln!(all, "{}: {}", ascii(&compared.scenario), compared.word);
        for (subject, base, patched, wanted) in text::deciding(compared) {
            let values = if base == patched {
                base
            } else {
                format!("{base} -> {patched}")
            };
            all.push_str(&wrapped(
                &format!("  {subject}: {values} (expected {wanted})"),
                "    ",
            ));
        }
        if let Some(because) = &compared.because {
            // The first reason is enough for a mail; the report has all.
            let said: Vec<&str> = because.lines().take(2).map(str::trim).collect();
            all.push_str(&wrapped(&format!("  {}", said.join(" ")), "    "));
        }
        for fault in &compared.faults.new {
            all.push_str(&wrapped(
                &format!("  new, {}: {}", fault.sign.phase, fault.said()),
                "    ",
            ));
        }
    }
    all
}

/// What holds for the whole check.
fn sentences(report: &CheckReport) -> Vec<String> {
    let mut all = Vec::new();
    let scenarios = &report.whole.scenarios;
    let clean = |word: &Change| !matches!(word, Change::Broken | Change::Unclear);
    if !scenarios.is_empty()
        && scenarios.iter().all(|compared| {
            !compared.faults.has_new() && !compared.faults.has_doubtful() && clean(&compared.word)
        })
    {
        all.push("No new warning, at boot or while the scenarios ran.".to_owned());
    }
    let unexercised: Vec<&str> = scenarios
        .iter()
        .filter(|compared| compared.word == Change::NotExercised)
        .map(|compared| compared.scenario.as_str())
        .collect();
    if !unexercised.is_empty() {
        all.push(format!(
            "Run without running a changed line: {}.",
            unexercised.join(", ")
        ));
    }
    if let Some(coverage) = &report.coverage {
        let (ran, all_lines) = coverage.lines();
        all.push(format!(
            "Of {all_lines} changed lines with code {ran} ran (gcov)."
        ));
    }
    if !report.each.is_empty() && report.each.iter().all(|step| clean(&step.word)) {
        all.push("Each patch builds, boots and breaks no scenario.".to_owned());
    }
    if let Some(debug) = &report.debug
        && !debug.scenarios.is_empty()
        && debug.scenarios.iter().all(|one| one.word >= Change::Holds)
    {
        all.push("No new fault with lockdep, DEBUG_VM, KASAN and kmemleak.".to_owned());
    }
    all
}

/// Everything else than printable ASCII as `?`.
fn ascii(text: &str) -> String {
    let plain = |c: char| if matches!(c, ' '..='~') { c } else { '?' };
    text.chars().map(plain).collect()
}

/// Words in lines of [`WIDTH`], those after the first indented.
fn wrapped(text: &str, indent: &str) -> String {
    lines(text, indent, "")
}

/// A command that a shell takes as it stands.
fn wrapped_command(command: &str) -> String {
    lines(&format!("$ {command}"), "    ", " \\")
}

fn lines(text: &str, indent: &str, ending: &str) -> String {
    let text = ascii(text);
    let start = text.len() - text.trim_start().len();
    let mut all = String::new();
    let mut line = text[..start].to_owned();
    let mut is_empty = true;
    for word in text.split_whitespace() {
        let space = usize::from(!is_empty);
        if !is_empty && line.len() + space + word.len() + ending.len() > WIDTH {
            let _ = writeln!(all, "{line}{ending}");
            line = indent.to_owned();
            is_empty = true;
        }
        if !is_empty {
            line.push(' ');
        }
        line.push_str(word);
        is_empty = false;
    }
    let _ = writeln!(all, "{line}");
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_short_and_plain() {
        let text = format!("  caf\u{e9}: {}", "some words ".repeat(20));
        let lines: Vec<String> = wrapped(&text, "    ").lines().map(str::to_owned).collect();
        assert!(lines.len() > 2);
        assert!(
            lines
                .iter()
                .all(|line| line.len() <= WIDTH && line.is_ascii())
        );
        assert!(lines[0].starts_with("  caf?: some"));
        assert!(lines[1].starts_with("    some"));
    }

    #[test]
    fn a_long_command_is_one_command() {
        let command = format!("numalab check {}--base linux-6.12", "a.patch ".repeat(20));
        let text = wrapped_command(&command);
        let joined = text.replace(" \\\n    ", " ");
        assert_eq!(joined.trim_end(), format!("$ {command}"));
        assert!(text.lines().all(|line| line.len() <= WIDTH));
    }
}
