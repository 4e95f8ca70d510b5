//! What holds for whatever stands in a file: valid texts, changed at random, never make
//! a parser panic, and what a parser takes means what was written.
//!
//! Some hundred cases run with the tests; `PROPTEST_CASES=1000000` runs more.

use std::path::Path;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;

use crate::catalog::definition::Definition;
use crate::config::{Config, Requested};
use crate::patch::diff;
use crate::series::fuzzing;
use crate::spec::{Direction, Fragment, Patch};

/// One change of a text: what is done, where, how much, with what.
type Edit = (u8, Index, usize, Index);

/// Texts out of `seeds`, with some changes; the pieces come from `words` and from the
/// seeds themselves.
fn changed(
    seeds: &'static [&'static str],
    words: &'static [&'static str],
) -> impl Strategy<Value = Vec<u8>> {
    let edit = (0_u8..9, any::<Index>(), 0_usize..80, any::<Index>());
    (any::<Index>(), vec(edit, 0..8)).prop_map(move |(seed, edits)| {
        let mut bytes = seed.get(seeds).as_bytes().to_vec();
        for edit in edits {
            apply(&mut bytes, edit, seeds, words);
        }
        bytes
    })
}

fn apply(bytes: &mut Vec<u8>, (kind, at, length, with): Edit, seeds: &[&str], words: &[&str]) {
    let at = at.index(bytes.len() + 1);
    let end = (at + length).min(bytes.len());
    let lines: Vec<Vec<u8>> = bytes
        .split_inclusive(|byte| *byte == b'\n')
        .map(<[u8]>::to_vec)
        .collect();
    match kind {
        0 => drop(bytes.drain(at..end)),
        1 => bytes.truncate(at),
        2 => drop(bytes.splice(at..at, with.get(words).bytes())),
        3 => drop(bytes.splice(at..end, with.get(words).bytes())),
        4 => drop(bytes.splice(at..at, with.get(seeds).bytes())),
        5 => drop(bytes.splice(at..at, [u8::try_from(length * 3).unwrap_or(0)])),
        6 if !lines.is_empty() => {
            let mut lines = lines;
            let (from, to) = (at % lines.len(), with.index(lines.len()));
            lines.swap(from, to);
            *bytes = lines.concat();
        }
        7 if !lines.is_empty() => {
            let mut lines = lines;
            let line = lines[at % lines.len()].clone();
            lines.insert(with.index(lines.len()), line);
            *bytes = lines.concat();
        }
        8 => {
            let copy = bytes[at..end].to_vec();
            let place = with.index(bytes.len() + 1);
            bytes.splice(place..place, copy);
        }
        _ => {}
    }
}

const DIFFS: &[&str] = &[
    "diff --git a/kernel/sched/fair.c b/kernel/sched/fair.c\nindex 1..2 100644\n\
     --- a/kernel/sched/fair.c\n+++ b/kernel/sched/fair.c\n@@ -1,3 +1,4 @@ int f(void)\n \t{\n\
     -\treturn 1;\n+\treturn 2;\n+\n \t}\n@@ -9 +10 @@\n-a\n+b\n\\ No newline at end of file\n-- \n2.43.0\n\n",
    "diff --git a/x b/y z\nsimilarity index 90%\nrename from x\nrename to y z\n--- \"a/\\303\\244\"\n\
     +++ \"b/\\tx\"\n@@ -1 +1 @@\n-a\n+b\n",
    "diff --git a/new b/new\nnew file mode 100755\nindex 0000000..1\n--- /dev/null\n+++ b/new\n\
     @@ -0,0 +1 @@\n+x\ndiff --git a/old b/old\ndeleted file mode 100644\n--- a/old\n+++ /dev/null\n\
     @@ -1 +0,0 @@\n-x\ndiff --git a/m b/m\nold mode 100644\nnew mode 100755\n",
    "diff --git a/b.bin b/b.bin\nindex 1..2\nGIT binary patch\nliteral 3\nKcmZQ%U|?Vb00031\n\nliteral 0\n\
     HcmV?d00001\n\n",
    "--- linux.orig/f\t2024-01-01 00:00\r\n+++ linux/f\t2024-01-02\r\n@@ -1,2 +1,2 @@\r\n x\r\n-y\r\n+z\r\n",
];

const DIFF_WORDS: &[&str] = &[
    "diff --git ",
    "--- ",
    "+++ ",
    "@@ -1,2 +1 @@",
    "@@ -18446744073709551615,1 +1 @@",
    "@@ -",
    "@@@ -1 -1 +1 @@@",
    "rename from ",
    "new file mode 120000",
    "\"",
    "\\",
    "\\377",
    "/dev/null",
    "../",
    "a/",
    "\n",
    "\r\n",
    "\0",
    "-- \n",
    "From ",
    "Binary files a and b differ\n",
    "ä",
    "\u{2028}",
    "diff --cc f\n",
    "\t",
    " ",
];

const MAILS: &[&str] = &[
    "From 0123456789012345678901234567890123456789 Mon Sep 17 00:00:00 2001\nFrom: A <a@b>\n\
     Date: Tue, 1 Apr 2025 10:00:00 +0200\nSubject: [PATCH RFC v3 2/5] numa: =?UTF-8?q?f=C3=BCr?=\n \
     folded\n\nWhy.\n---\n f | 2 +-\n\ndiff --git a/f b/f\n--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+b\n\
     --\n2.43\n\nbase-commit: 0123456789012345678901234567890123456789\n",
    "From: A <a@b>\nSubject: Re: [PATCH] x\nContent-Type: multipart/alternative; boundary=\"xx\"\n\n\
     --xx\nContent-Type: text/plain; format=flowed\nContent-Transfer-Encoding: base64\n\nZGlmZg==\n\
     --xx\nContent-Type: text/html\n\n<p>diff --git a/x b/x\n--xx--\n> diff --git a/x b/x\n-- >8 --\n",
    "Subject: [PATCH 0/2] cover\nContent-Type: multipart/mixed; boundary=b\n\n--b\n\
     Content-Type: multipart/alternative; boundary=c\n\n--c\n\ntext\n--c--\n--b\n\
     Content-Disposition: attachment; filename=\"x.patch\"\n\ndiff --git a/f b/f @@ -1 +1 @@ x\n--b--\n",
];

const MAIL_WORDS: &[&str] = &[
    "From ",
    "From: ",
    "Subject: ",
    "Re: ",
    "[PATCH",
    "]",
    "1/2",
    "v2",
    "=?UTF-8?B?",
    "?=",
    "\n\n",
    "--xx",
    "--xx--",
    "boundary=",
    "Content-Type: ",
    "format=flowed",
    "\r\n",
    "\n ",
    "\0",
    "> ",
    " diff --git a/x b/x ",
    " @@ -1 +1 @@ ",
    "-- >8 --\n",
    "base-commit: ",
    "commit ",
    ";",
    "\"",
    "<html",
    "ä",
    "\u{a0}",
];

const CONFIGS: &[&str] = &[
    "CONFIG_NUMA=y\n# CONFIG_DEBUG is not set\nCONFIG_NR_CPUS=64\nCONFIG_X=\"a b\"\nCONFIG_H=0x10\n\
     # a comment\n\nCONFIG_NUMA=n\n",
    "#\n# Automatically generated file; DO NOT EDIT.\n#\nCONFIG_CC_VERSION_TEXT=\"gcc (Debian) 12\"\n",
];

const CONFIG_WORDS: &[&str] = &[
    "CONFIG_",
    "=",
    "y",
    " is not set",
    "# ",
    "\n",
    "\r\n",
    "\"",
    "\0",
    "ä",
    "\\",
];

const KCONFIG_WORDS: &[&str] = &[
    "config",
    "menuconfig",
    "if",
    "endif",
    "menu",
    "endmenu",
    "choice",
    "endchoice",
    "source",
    "help",
    "---help---",
    "depends on",
    "range",
    "bool",
    "tristate",
    "prompt",
    "comment",
    "",
    "\\",
    "#",
];

const KCONFIG_RESTS: &[&str] = &[
    "A",
    "B",
    "!A && B",
    "\"x\" if A",
    "\"\" if",
    "\"",
    "$(SRCARCH)",
    "\\",
    "",
    "\t\\",
    "1 A",
    "ä\0",
    "A\r",
];

const DEFINITIONS: &[&str] = &[
    "summary: x\nbase: small\napply: [fix.patch]\nrevert:\n  - old.patch\nconfig: [numa]\n\
     set: {CONFIG_A: y, CONFIG_B: '64'}\nmatrix: true\nexpected:\n  a/one: {verdict: fail, because: y}\n",
    "summary: |\n  several\n  lines\nsource:\n  debian: linux-source-6.12\n",
    "summary: x\nsource: {directory: ../linux}\nset:\n  CONFIG_A: n\n",
];

const DEFINITION_WORDS: &[&str] = &[
    ": ",
    "- ",
    "{",
    "}",
    "[",
    "]",
    "\"",
    "'",
    "&a ",
    "*a",
    "!!int ",
    "|\n",
    "---\n",
    "\t",
    "  ",
    "true",
    "~",
    "source",
    "base",
    "expected",
    "\0",
    "ä",
    "<<: ",
    "1e999",
    "%YAML 1.2\n",
    "?",
];

fn patch(bytes: &[u8]) -> Patch {
    Patch::new("x.patch", bytes.to_vec(), Direction::Apply)
}

proptest! {
    #[test]
    fn no_diff_makes_the_reader_panic(bytes in changed(DIFFS, DIFF_WORDS)) {
        if let Err(error) = diff::read(&patch(&bytes)) {
            prop_assert!(!error.to_string().contains('\n'));
        }
    }

    /// What is written as a diff is read as it was written.
    #[test]
    fn a_diff_is_read_as_it_was_written(
        files in vec(("[a-z]{1,8}(/[a-z .]{1,6}[a-z]){0,3}", vec((0_u64..4, 0_u64..4, 1_u64..90), 1..4)), 1..5),
        noise in "[a-zA-Z0-9 .>*|]{0,20}",
        mailed in any::<bool>(),
    ) {
        let mut text = format!("{noise}\n---\n");
        for (name, hunks) in &files {
            if mailed {
                text += &format!("diff --git a/{name} b/{name}\nindex 1..2 100644\n");
            }
            text += &format!("--- a/{name}\n+++ b/{name}\n");
            for (removed, added, line) in hunks {
                let (old, new) = (removed + 1, added + 1);
                text += &format!("@@ -{line},{old} +{line},{new} @@ {noise}\n --- context\n");
                text += &"---- a/x\n".repeat(usize::try_from(*removed).unwrap_or(0));
                text += &"++++ b/x\n".repeat(usize::try_from(*added).unwrap_or(0));
            }
        }
        text += "-- \n2.43.0\n";
        let read = diff::read(&patch(text.as_bytes())).map_err(|error| {
            TestCaseError::fail(format!("{error}\n{text}"))
        })?;
        prop_assert_eq!(read.len(), files.len());
        for (change, (name, hunks)) in read.iter().zip(&files) {
            prop_assert_eq!(change.old.clone(), Some(format!("a/{name}")));
            prop_assert_eq!(change.new.clone(), Some(format!("b/{name}")));
            let lines: Vec<u64> = change.hunks.iter().map(|hunk| hunk.old.0).collect();
            let written: Vec<u64> = hunks.iter().map(|(_, _, line)| *line).collect();
            prop_assert_eq!(lines, written);
        }
    }

    #[test]
    fn no_mail_makes_the_readers_panic(
        bytes in changed(MAILS, MAIL_WORDS),
        diff in changed(DIFFS, DIFF_WORDS),
    ) {
        fuzzing::mail(&bytes, &diff);
    }

    #[test]
    fn no_subject_makes_its_reader_panic(subject in "(Re|Fwd|\\[|\\]|PATCH|RFC|v[0-9.]{0,9}|[0-9]{0,12}/[0-9]{0,12}|:|,| |\\PC){0,12}") {
        fuzzing::subject(&subject);
    }

    /// Whatever is given, nothing is lost: a series comes out whole or not at all.
    #[test]
    fn no_part_is_lost(
        words in vec(vec((1_u32..5, 0_u32..5, 1_u32..3, any::<bool>()), 0..6), 0..4),
    ) {
        fuzzing::order(&words)?;
    }

    /// A whole series comes out in its order, however it was shuffled and cut into files.
    #[test]
    fn a_whole_series_comes_out_in_its_order(
        order in (2_u32..60).prop_flat_map(|of| Just((1..=of).collect::<Vec<_>>()).prop_shuffle()),
        cut in any::<Index>(),
    ) {
        fuzzing::whole(&order, cut.index(order.len()))?;
    }

    #[test]
    fn no_configuration_makes_its_readers_panic(bytes in changed(CONFIGS, CONFIG_WORDS)) {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let config = Config::parse(&text);
        let _ = (config.lacks(), config.value("CONFIG_NUMA"));
        let fragment = |text: String| Fragment { name: "x".to_owned(), text };
        if let Ok(requested) = Requested::read(&[fragment(text)]) {
            // What was understood is understood again.
            let again = Requested::read(&[fragment(requested.text())]);
            prop_assert_eq!(again.map(|again| again.text()).ok(), Some(requested.text()));
        }
    }

    #[test]
    fn no_kconfig_makes_its_reader_panic(lines in vec((any::<Index>(), any::<Index>(), any::<Index>()), 0..40)) {
        let line = |(indent, word, rest): &(Index, Index, Index)| {
            let (indent, word) = (indent.get(&["", "\t", "  "]), word.get(KCONFIG_WORDS));
            format!("{indent}{word} {}\n", rest.get(KCONFIG_RESTS))
        };
        let text: String = lines.iter().map(line).collect();
        crate::config::kconfig::fuzzing(&text);
    }

    #[test]
    fn no_definition_makes_its_reader_panic(bytes in changed(DEFINITIONS, DEFINITION_WORDS)) {
        let text = String::from_utf8_lossy(&bytes);
        if let Err(error) = Definition::parse(Path::new("x.yaml"), &text) {
            prop_assert!(error.to_string().contains("x.yaml:"));
        }
    }
}
