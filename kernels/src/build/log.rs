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
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Cause {
    /// The source does not compile.
    Source,
    /// The disk is full.
    Full,
    /// The system ended a compiler, or refused it memory.
    Memory,
    /// The source is older than the compiler takes for granted; in which way.
    TooNew(&'static str),
    /// The source wants a newer compiler than this.
    TooOld,
    /// A program, header or library of the build is missing: its name.
    Missing(String),
    /// The configuration names a file that is not there, as distributions' do for keys.
    File(String),
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
    let cause = cause(text);
    let mut lines = pick(text, |line| {
        line.contains(": error: ")
            || line.contains(": fatal error: ")
            || line.contains("undefined reference to")
            || line.contains("multiple definition of")
            || line.starts_with("ld: ")
            || line.contains("internal compiler error")
            || line.contains("No space left on device")
            || line.contains("Killed signal")
            || line.contains(": not found")
            || line.contains(": command not found")
            || line.contains("signal 9 [Killed]")
            || line.contains("is too old")
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

/// What each machine's tools say where there is no memory.
const MEMORY: &[&str] = &[
    "Killed signal terminated program",
    "terminated with signal 9 [Killed]",
    "Cannot allocate memory",
    "virtual memory exhausted",
    "memory exhausted",
    "out of memory allocating",
    "std::bad_alloc",
];

/// What compilers say of sources that are too old for them, and why that is.
const TOO_NEW: &[(&str, &str)] = &[
    // GCC 15's default is C23, where these are keywords.
    ("cannot use keyword 'false' as enumeration constant", C23),
    ("cannot use keyword 'true' as enumeration constant", C23),
    ("'bool' cannot be defined via 'typedef'", C23),
    ("expected identifier before 'false'", C23),
    (
        "[-Werror=unterminated-string-initialization]",
        "it warns of texts without room for their end, and the source makes errors of warnings",
    ),
    // GCC 12, in tools/lib/subcmd.
    (
        "[-Werror=use-after-free]",
        "it warns of pointers that realloc was given, and the source makes errors of warnings",
    ),
    // GCC 10's default is -fno-common (scripts/dtc).
    (
        "multiple definition of `yylloc'",
        "it takes -fno-common for granted",
    ),
    // Distributions' GCC since version 6.
    (
        "code model kernel does not support PIC mode",
        "it makes position-independent code by itself",
    ),
];

const C23: &str = "it takes C23 for granted, where `bool`, `true` and `false` are keywords";

fn cause(text: &str) -> Cause {
    let any = |marks: &[&str]| {
        text.lines()
            .any(|line| marks.iter().any(|mark| line.contains(mark)))
    };
    if any(&["No space left on device", "Disk quota exceeded"]) {
        return Cause::Full;
    }
    if any(MEMORY)
        || text
            .lines()
            .any(|line| line.starts_with("make") && line.ends_with("] Killed"))
    {
        return Cause::Memory;
    }
    if let Some((_, why)) = TOO_NEW.iter().find(|(mark, _)| any(&[mark])) {
        return Cause::TooNew(why);
    }
    if any(&[
        "*** Compiler is too old.",
        "*** C compiler is too old",
        "Sorry, your compiler is too old",
    ]) {
        return Cause::TooOld;
    }
    if let Some(missing) = text.lines().find_map(missing) {
        return Cause::Missing(missing);
    }
    if let Some(file) = text.lines().find_map(certificate) {
        return Cause::File(file);
    }
    Cause::Source
}

/// The program, header or library that a line says is not there.
fn missing(line: &str) -> Option<String> {
    // "/bin/sh: 1: bc: not found", "sh: line 1: bc: command not found"
    if line.contains("sh: ") {
        let said = line
            .strip_suffix(": not found")
            .or_else(|| line.strip_suffix(": command not found"));
        if let Some(name) = said.and_then(|said| said.rsplit(": ").next()) {
            return is_program(name).then(|| name.to_owned());
        }
    }
    // "make[1]: flex: No such file or directory"
    if line.starts_with("make")
        && let Some(said) = line.strip_suffix(": No such file or directory")
        && let Some((_, name)) = said.rsplit_once(": ")
        && is_program(name)
    {
        return Some(name.to_owned());
    }
    // "x.c:20:10: fatal error: openssl/bio.h: No such file or directory"
    if let Some((_, rest)) = line.split_once("fatal error: ")
        && let Some(header) = rest.strip_suffix(": No such file or directory")
        && HEADERS.iter().any(|known| header.starts_with(known))
    {
        return Some(format!("the header {header}"));
    }
    // "/usr/bin/ld: cannot find -lelf: No such file or directory"
    if let Some((_, rest)) = line.split_once("cannot find -l") {
        let name = rest.split([':', ' ']).next().unwrap_or_default();
        return (!name.is_empty()).then(|| format!("the library lib{name}"));
    }
    if line.contains("please install libelf-dev") {
        return Some("the header gelf.h".to_owned());
    }
    if line.contains("pahole (pahole) is not available") {
        return Some("pahole".to_owned());
    }
    None
}

/// Headers of the host that kernels' builds include; one of the kernel's own that is
/// missing is the source's fault.
const HEADERS: &[&str] = &[
    "openssl/",
    "libelf.h",
    "gelf.h",
    "elf.h",
    "zlib.h",
    "gmp.h",
    "gcc-plugin.h",
];

/// A name as a program has it: of the source's own scripts, which have a path, a missing
/// one is the source's fault.
fn is_program(name: &str) -> bool {
    !name.is_empty()
        && name
            .chars()
            .all(|letter| letter.is_ascii_alphanumeric() || "-_.+".contains(letter))
}

/// The file of keys that a line says is not there.
fn certificate(line: &str) -> Option<String> {
    let (_, rest) = line.split_once("No rule to make target '")?;
    let (file, rest) = rest.split_once('\'')?;
    rest.contains("certs/").then(|| file.to_owned())
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
    fn what_this_machine_lacks_is_told_from_what_the_source_does() {
        let missing = |name: &str| Cause::Missing(name.to_owned());
        let cases = [
            (
                "/bin/sh: 1: bc: not found\nmake[1]: *** [Kbuild:24: include/generated/timeconst.h] Error 127",
                missing("bc"),
            ),
            ("bash: line 1: flex: command not found", missing("flex")),
            (
                "make[2]: bison: No such file or directory",
                missing("bison"),
            ),
            (
                "scripts/sign-file.c:25:10: fatal error: openssl/opensslv.h: No such file or directory",
                missing("the header openssl/opensslv.h"),
            ),
            (
                "tools/objtool/include/objtool/elf.h:10:10: fatal error: gelf.h: No such file or directory",
                missing("the header gelf.h"),
            ),
            (
                "/usr/bin/ld: cannot find -lelf: No such file or directory",
                missing("the library libelf"),
            ),
            (
                "Makefile:1025: *** \"Cannot generate ORC metadata for CONFIG_UNWINDER_ORC=y, please install libelf-dev, libelf-devel or elfutils-libelf-devel\".  Stop.",
                missing("the header gelf.h"),
            ),
            (
                "BTF: .tmp_vmlinux.btf: pahole (pahole) is not available",
                missing("pahole"),
            ),
            // The source's own.
            (
                "kernel/sched/fair.c:5:10: fatal error: linux/nope.h: No such file or directory",
                Cause::Source,
            ),
            ("/bin/sh: 1: ./scripts/nope.sh: not found", Cause::Source),
            (
                "make[3]: *** No rule to make target 'kernel/sched/nope.o', needed by 'kernel/sched/built-in.a'.  Stop.",
                Cause::Source,
            ),
            (
                "collect2: fatal error: ld terminated with signal 9 [Killed]",
                Cause::Memory,
            ),
            (
                "cc1: out of memory allocating 65536 bytes after a total of 1 bytes",
                Cause::Memory,
            ),
            (
                "make[4]: *** [scripts/Makefile.build:244: mm/mempolicy.o] Killed",
                Cause::Memory,
            ),
            (
                "/usr/bin/ld: scripts/dtc/dtc-parser.tab.o:(.bss+0x20): multiple definition of `yylloc'; scripts/dtc/dtc-lexer.lex.o:(.bss+0x0): first defined here",
                Cause::TooNew("it takes -fno-common for granted"),
            ),
            (
                "./include/linux/types.h:30:33: error: 'bool' cannot be defined via 'typedef'",
                Cause::TooNew(C23),
            ),
            ("Makefile:1: *** Compiler is too old.", Cause::TooOld),
            (
                "make[3]: *** No rule to make target 'debian/certs/debian-uefi-certs.pem', needed by 'certs/x509_certificate_list'.  Stop.",
                Cause::File("debian/certs/debian-uefi-certs.pem".to_owned()),
            ),
        ];
        for (text, cause) in cases {
            let failure = explain(text);
            assert_eq!(failure.cause, cause, "{text}");
            assert!(!failure.lines.is_empty(), "{text}");
        }
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
                Cause::Memory,
                1,
            ),
            (
                "./include/linux/stddef.h:11:9: error: cannot use keyword 'false' as enumeration constant",
                Cause::TooNew(C23),
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
