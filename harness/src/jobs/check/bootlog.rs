//! How the messages of two kernels differ while they boot.
//!
//! This is for people to read: faults are found by `verdict::fault`, not here.

use camino::Utf8Path;
use similar::{Algorithm, DiffTag, capture_diff_slices};

use crate::report::{Compared, RunReport};
use crate::verdict::fault::{message, plain};

/// The most lines of a console that are compared.
const LINES: usize = 3000;

/// The differences of every scenario's first runs, below a heading each.
pub(super) fn differences(scenarios: &[Compared]) -> String {
    let mut all = String::new();
    for compared in scenarios {
        if let (Some(base), Some(patched)) = (compared.base.first(), compared.patched.first()) {
            let difference = match (boot_of(base), boot_of(patched)) {
                (Some(base), Some(patched)) => difference(&base, &patched),
                _ => "a console log can no longer be read\n".to_owned(),
            };
            all.push_str(&format!("# {}\n{difference}", compared.scenario));
        }
    }
    all
}

fn boot_of(run: &RunReport) -> Option<Vec<(String, String)>> {
    let bytes = std::fs::read(run.folder.join(Utf8Path::new("console.log"))).ok()?;
    Some(boot(&String::from_utf8_lossy(&bytes), run.boot_end_us))
}

/// The boot's lines without time stamps, each after the form in which it is compared.
fn boot(console: &str, end_us: Option<u64>) -> Vec<(String, String)> {
    let is_boot = |line: &&str| {
        let late = stamp_us(line)
            .zip(end_us)
            .is_some_and(|(at, end)| at >= end);
        !late
    };
    let lines = console.lines().take(LINES).take_while(is_boot);
    let lines = lines.map(|line| {
        let text = message(line.trim_end()).to_owned();
        (without_numbers(&plain(&text)), text)
    });
    lines.collect()
}

/// Sizes and calibrations differ with every byte of the image.
fn without_numbers(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '0'..='9' if plain.ends_with('#') => {}
            '0'..='9' => plain.push('#'),
            _ => plain.push(letter),
        }
    }
    plain
}

fn stamp_us(line: &str) -> Option<u64> {
    let (seconds, rest) = line.strip_prefix('[')?.trim_start().split_once('.')?;
    let (micros, _) = rest.split_once(']')?;
    let micros: u64 = micros.parse().ok()?;
    seconds
        .parse::<u64>()
        .ok()?
        .checked_mul(1_000_000)?
        .checked_add(micros)
}

/// The lines that only one kernel prints, with `-` and `+` before them.
fn difference(base: &[(String, String)], patched: &[(String, String)]) -> String {
    let [old, new] =
        [base, patched].map(|lines| lines.iter().map(|line| &line.0).collect::<Vec<_>>());
    let mut text = String::new();
    for change in capture_diff_slices(Algorithm::Myers, &old, &new) {
        let (tag, old, new) = change.as_tag_tuple();
        if tag != DiffTag::Equal {
            text.extend(base[old].iter().map(|line| format!("-{}\n", line.1)));
            text.extend(patched[new].iter().map(|line| format!("+{}\n", line.1)));
        }
    }
    if text.is_empty() {
        text.push_str("no line differs\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_lines_that_one_kernel_alone_prints_are_a_difference() {
        let base = "\
[    0.000000] Linux version 6.12.117 #1
[    0.100000] Memory: 480000K/524000K available
[    0.200000] one
[    0.300000] two
[    9.000000] after the boot";
        let patched = "\
[    0.000000] Linux version 6.12.117 #1
[    0.100010] Memory: 480004K/524000K available
[    0.300000] two
[    0.310000] ------------[ cut here ]------------
[    0.320000] WARNING: CPU: 0 PID: 0 at kernel/sched/fair.c:13849 f+0x1/0x2
[    9.100000] another thing after the boot";
        let [base, patched] = [base, patched].map(|text| boot(text, Some(5_000_000)));
        assert_eq!(
            difference(&base, &patched),
            "-one\n\
             +------------[ cut here ]------------\n\
             +WARNING: CPU: 0 PID: 0 at kernel/sched/fair.c:13849 f+0x1/0x2\n"
        );
        assert_eq!(difference(&base, &base), "no line differs\n");
    }
}
