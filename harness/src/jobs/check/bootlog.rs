//! What two kernels say differently while they boot.
//!
//! For a person to read: trouble is found by `fault` and not here.

use std::fmt::Write as _;

use camino::Utf8Path;

use crate::report::RunReport;
use crate::verdict::fault::{message, plain};

/// The most lines of a console that are compared.
const LINES: usize = 3000;

/// Lines that only one of two boots has, in their order, with `-` and `+` before them; empty
/// if there are none. `None` if a console cannot be read any more.
pub(super) fn difference(base: &RunReport, patched: &RunReport) -> Option<String> {
    let [base, patched] = [base, patched].map(|run| {
        let bytes = std::fs::read(run.folder.join(Utf8Path::new("console.log"))).ok()?;
        Some(boot(&String::from_utf8_lossy(&bytes), run.boot_end_us))
    });
    Some(lines_of_one(&base?, &patched?))
}

/// The boot's lines without time stamps, each with the form in which it is compared.
fn boot(console: &str, end_us: Option<u64>) -> Vec<(String, String)> {
    let mut lines = Vec::new();
    for line in console.lines().take(LINES) {
        let late = stamp_us(line)
            .zip(end_us)
            .is_some_and(|(at, end)| at >= end);
        if late {
            break;
        }
        let text = message(line.trim_end()).to_owned();
        lines.push((without_numbers(&plain(&text)), text));
    }
    lines
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

/// A longest common subsequence leaves these lines over.
fn lines_of_one(base: &[(String, String)], patched: &[(String, String)]) -> String {
    let same = |one: &(String, String), other: &(String, String)| one.0 == other.0;
    let start = base
        .iter()
        .zip(patched)
        .take_while(|(one, other)| same(one, other))
        .count();
    let (base, patched) = (&base[start..], &patched[start..]);
    let end = base
        .iter()
        .rev()
        .zip(patched.iter().rev())
        .take_while(|(one, other)| same(one, other))
        .count();
    let (base, patched) = (&base[..base.len() - end], &patched[..patched.len() - end]);
    let width = patched.len() + 1;
    let mut common = vec![0_u16; (base.len() + 1) * width];
    for (i, one) in base.iter().enumerate().rev() {
        for (j, other) in patched.iter().enumerate().rev() {
            common[i * width + j] = if same(one, other) {
                common[(i + 1) * width + j + 1] + 1
            } else {
                common[(i + 1) * width + j].max(common[i * width + j + 1])
            };
        }
    }
    let mut text = String::new();
    let (mut i, mut j) = (0, 0);
    // Writing to a string cannot fail.
    while i < base.len() || j < patched.len() {
        if i < base.len() && j < patched.len() && same(&base[i], &patched[j]) {
            (i, j) = (i + 1, j + 1);
        } else if j == patched.len()
            || i < base.len() && common[(i + 1) * width + j] >= common[i * width + j + 1]
        {
            let _ = writeln!(text, "-{}", base[i].1);
            i += 1;
        } else {
            let _ = writeln!(text, "+{}", patched[j].1);
            j += 1;
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_words_that_one_kernel_alone_says_are_a_difference() {
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
            lines_of_one(&base, &patched),
            "-one\n\
             +------------[ cut here ]------------\n\
             +WARNING: CPU: 0 PID: 0 at kernel/sched/fair.c:13849 f+0x1/0x2\n"
        );
        assert_eq!(lines_of_one(&base, &base), "");
    }
}
