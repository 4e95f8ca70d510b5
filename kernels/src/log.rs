//! A build's output: how far it is, and what went wrong.

use std::fs;
use std::path::Path;

/// How many lines of errors are shown.
const SHOWN: usize = 10;

/// Counts the steps in a kernel build's output, of which kbuild prints each as
/// `  CC      kernel/sched/fair.o`.
#[derive(Debug, Default)]
pub(crate) struct Steps {
    pub(crate) done: u64,
}

impl Steps {
    /// Takes one line; whether it is a step.
    pub(crate) fn take(&mut self, line: &str) -> bool {
        let step = line.strip_prefix("  ").is_some_and(|rest| {
            let (word, rest) = rest.split_once(' ').unwrap_or((rest, ""));
            !rest.is_empty()
                && word.starts_with(|first: char| first.is_ascii_uppercase())
                && word
                    .chars()
                    .all(|letter| letter.is_ascii_uppercase() || letter.is_ascii_digit())
        });
        self.done += u64::from(step);
        step
    }
}

/// Why a build failed, as far as its output says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cause {
    /// The source does not compile.
    Source,
    /// The disk is full.
    Full,
    /// The system ended a compiler, mostly for want of memory.
    Killed,
    /// The compiler's default language is too new for the source.
    Language,
}

/// What a failed build's output says.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) cause: Cause,
    /// The tools' own error lines.
    pub(crate) lines: Vec<String>,
}

/// Reads a failed build's output, from a place in the log on.
pub(crate) fn failure(log: &Path, from: u64) -> Failure {
    let bytes = fs::read(log).unwrap_or_default();
    let from = usize::try_from(from).unwrap_or(0).min(bytes.len());
    let text = String::from_utf8_lossy(&bytes[from..]);
    explain(&text)
}

fn explain(text: &str) -> Failure {
    let any = |marks: &[&str]| {
        text.lines()
            .any(|line| marks.iter().any(|mark| line.contains(mark)))
    };
    let cause = if any(&["No space left on device", "Disk quota exceeded"]) {
        Cause::Full
    } else if any(&["Killed signal terminated program", "Cannot allocate memory"]) {
        Cause::Killed
    } else if any(&[
        // What GCC 15, whose default is C23, says about old kernels.
        "cannot use keyword 'false' as enumeration constant",
        "cannot use keyword 'true' as enumeration constant",
        "'bool' cannot be defined via 'typedef'",
        "expected identifier before 'false'",
    ]) {
        Cause::Language
    } else {
        Cause::Source
    };
    let mut lines = pick(text, |line| {
        line.contains(": error: ")
            || line.contains(": fatal error: ")
            || line.contains("undefined reference to")
            || line.contains("multiple definition of")
            || line.starts_with("ld: ")
            || line.contains("internal compiler error")
            || line.contains("No space left on device")
            || line.contains("Killed signal")
            || line.contains("Assembler messages")
            || line.contains(": Error: ")
            || line.starts_with("error: ")
    });
    if lines.is_empty() {
        // Of make's own words the first is nearest to the cause.
        lines = pick(text, |line| {
            line.starts_with("make") && line.contains("***")
        });
    }
    if lines.is_empty() {
        let all: Vec<&str> = text.lines().collect();
        let last = &all[all.len().saturating_sub(SHOWN)..];
        lines = last.iter().map(|line| (*line).to_owned()).collect();
    }
    Failure { cause, lines }
}

fn pick(text: &str, wanted: impl Fn(&str) -> bool) -> Vec<String> {
    text.lines()
        .filter(|line| wanted(line))
        .take(SHOWN)
        .map(|line| line.chars().take(300).collect())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_told_from_other_lines() {
        let mut steps = Steps::default();
        for line in [
            "  CC      kernel/sched/fair.o",
            "  HOSTCC  scripts/kconfig/conf.o",
            "  LD      vmlinux",
            "make[1]: Entering directory '/x'",
            "kernel/sched/fair.c:1: error: x",
            "   12 | int x;",
            "  GEN     Makefile",
            "  12 | code",
            "  X",
        ] {
            steps.take(line);
        }
        assert_eq!(steps.done, 4);
    }

    #[test]
    fn causes_are_told_apart() {
        let cases = [
            (
                "a.c:1:2: error: expected ';'\nmake[2]: *** [x] Error 1",
                Cause::Source,
                1,
            ),
            (
                "fatal error: error writing to /tmp/x: No space left on device",
                Cause::Full,
                1,
            ),
            (
                "gcc: fatal error: Killed signal terminated program cc1",
                Cause::Killed,
                1,
            ),
            (
                "./include/linux/stddef.h:11:9: error: cannot use keyword 'false' as enumeration constant",
                Cause::Language,
                1,
            ),
            (
                "make: *** No rule to make target 'x'.  Stop.",
                Cause::Source,
                1,
            ),
            (
                "ld: vmlinux.o: undefined reference to `x'",
                Cause::Source,
                1,
            ),
            ("nothing said", Cause::Source, 1),
        ];
        for (text, cause, lines) in cases {
            let failure = explain(text);
            assert_eq!(
                (failure.cause, failure.lines.len()),
                (cause, lines),
                "{text}"
            );
        }
        let many = "x.c:1:1: error: no\n".repeat(30);
        assert_eq!(explain(&many).lines.len(), SHOWN);
    }
}
