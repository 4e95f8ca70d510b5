//! Quotes the faults that consoles report.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use crate::guest::escape::escape;
use crate::guest::fault_kind::FaultKind;
use crate::verdict::compare::Difference;
use crate::verdict::fault::{Fault, Phase, Sign, message};
use crate::verdict::taints;

/// The most lines of a fault that are quoted; the console has all.
const LINES: usize = 16;

/// Selects the faults of a difference that are introduced by the same words.
type Pick = fn(&Difference) -> &Vec<Fault>;

/// The differences of several scenarios, each fault once, with the scenarios that show it.
pub(crate) fn differences<'a>(all: impl Iterator<Item = (&'a str, &'a Difference)>) -> String {
    let all: Vec<_> = all.collect();
    let mut text = String::new();
    let kinds: [(Pick, &str, bool); 5] = [
        (|d| &d.new, "only the patched kernel prints", true),
        (
            |d| &d.sometimes,
            "the patched kernel prints in some runs only, or a busy host may have caused",
            true,
        ),
        (
            |d| &d.more,
            "the patched kernel prints more often, or too often to compare",
            true,
        ),
        (|d| &d.both, "both kernels print, so it is ignored", false),
        (|d| &d.gone, "only the base prints", false),
    ];
    // Writing to a string cannot fail.
    for (faults, words, whole) in kinds {
        let mut shown: BTreeSet<&Sign> = BTreeSet::new();
        for (_, difference) in &all {
            for fault in faults(difference) {
                if !shown.insert(&fault.sign) {
                    continue;
                }
                let has = |difference: &Difference| {
                    faults(difference)
                        .iter()
                        .any(|other| other.sign == fault.sign)
                };
                let scenarios: Vec<&str> = all
                    .iter()
                    .filter(|(_, difference)| has(difference))
                    .map(|(scenario, _)| *scenario)
                    .collect();
                let _ = writeln!(text, "{words}, {} ({}):", when(fault), scenarios.join(", "));
                text.push_str(&quoted(fault, whole));
            }
        }
    }
    for (scenario, difference) in &all {
        if difference.tainted != 0 {
            let flags = difference.tainted;
            let words: Vec<&str> = taints(flags).collect();
            let words = match &words[..] {
                [] => String::new(),
                words => format!(", by {}", words.join(", ")),
            };
            let _ = writeln!(
                text,
                "only the patched kernel is tainted ({flags}){words} ({scenario})"
            );
        }
    }
    let lockdep = |faults: &[Fault]| {
        faults
            .iter()
            .any(|fault| fault.sign.kind == FaultKind::Lockdep)
    };
    if all.iter().any(|(_, difference)| lockdep(&difference.both)) {
        text.push_str(
            "lockdep stops at its first report, so later locking faults of both kernels are \
             unknown\n",
        );
    }
    text
}

fn when(fault: &Fault) -> &'static str {
    match fault.sign.phase {
        Phase::Boot => "at boot",
        Phase::Plan => "after boot",
    }
}

/// The first lines of a fault, or its first line alone. Registers are omitted: they are of no
/// use in a comparison.
pub(crate) fn quoted(fault: &Fault, whole: bool) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    if !fault.words.is_empty() {
        let _ = writeln!(text, "    | {}", escape(fault.words.as_bytes()));
    }
    if fault.excerpt.is_empty() {
        let _ = writeln!(text, "    | {}", escape(fault.message.as_bytes()));
        return text;
    }
    let most = if whole { LINES } else { 1 };
    let mut lines = fault.excerpt.lines().filter(|line| !is_register(line));
    for line in lines.by_ref().take(most) {
        let _ = writeln!(text, "    | {}", escape(line.as_bytes()));
    }
    if whole && lines.next().is_some() {
        let _ = writeln!(
            text,
            "    | ... continued in its console.log, line {}",
            fault.line
        );
    }
    text
}

/// A line of registers, of code bytes or of page tables (`__show_regs`).
fn is_register(line: &str) -> bool {
    const STARTS: [&str; 14] = [
        "RSP: ",
        "RAX: ",
        "RDX: ",
        "RBP: ",
        "R10: ",
        "R13: ",
        "FS: ",
        "CS: ",
        "CR2: ",
        "DR0: ",
        "DR3: ",
        "Code: ",
        "PKRU: ",
        "Modules linked in:",
    ];
    let line = message(line).trim_start();
    STARTS.iter().any(|start| line.starts_with(start))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guest::fault_kind::Severity;

    #[test]
    fn a_warning_is_quoted_with_its_words_and_its_trace() {
        let fault = Fault {
            sign: Sign {
                kind: FaultKind::Warning,
                phase: Phase::Plan,
                place: "f".into(),
            },
            severity: Severity::Warning,
            count: 1,
            line: 7,
            message: "WARNING: CPU: 0 PID: 1 at f+0x1/0x2".into(),
            words: "on \u{1b}purpose".into(),
            excerpt: "[    1.000000] WARNING: CPU: 0 PID: 1 at f+0x1/0x2\n\
                      [    1.000001] RIP: 0010:f+0x1/0x2\n\
                      [    1.000002] RAX: 0000000000000000 RBX: 0000000000000000\n\
                      [    1.000003] Call Trace:\n\
                      [    1.000004]  g+0x1/0x2"
                .into(),
        };
        assert_eq!(
            quoted(&fault, true),
            "    | on \\u{1b}purpose\n    \
             | [    1.000000] WARNING: CPU: 0 PID: 1 at f+0x1/0x2\n    \
             | [    1.000001] RIP: 0010:f+0x1/0x2\n    \
             | [    1.000003] Call Trace:\n    \
             | [    1.000004]  g+0x1/0x2\n"
        );
        assert_eq!(
            quoted(&fault, false),
            "    | on \\u{1b}purpose\n    \
             | [    1.000000] WARNING: CPU: 0 PID: 1 at f+0x1/0x2\n"
        );
    }
}
