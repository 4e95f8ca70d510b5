//! Documents say what is: transcripts are what their commands print, and files shown are
//! the files.
//!
//! `UPDATE_TRANSCRIPTS=1` writes them anew. A transcript's digits are a function of the
//! kernels' images and of QEMU: where its first two lines, which name both, are not those of
//! this machine, everything but the digits is compared.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

/// The documents that are looked at, from the project's root.
const DOCUMENTS: [&str; 2] = ["README.md", "CONTRIBUTING.md"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("a crate lies in a workspace")
        .to_owned()
}

#[test]
fn the_scenario_reference_is_that_of_the_schema() {
    let path = root().join("docs/src/scenario-reference.md");
    let reference = numalab::scenario::reference();
    if std::env::var_os("UPDATE_TRANSCRIPTS").is_some() {
        fs::create_dir_all(path.parent().expect("a file lies in a folder")).unwrap();
        fs::write(&path, &reference).unwrap();
    }
    let shown = fs::read_to_string(&path).unwrap();
    assert!(
        shown == reference,
        "{} is not current: UPDATE_TRANSCRIPTS=1 writes it anew",
        path.display()
    );
}

/// A fenced block behind a comment `<!-- KIND: WHAT -->`.
struct Block {
    what: String,
    /// The lines of the block, without its fences.
    lines: std::ops::Range<usize>,
}

fn blocks(text: &str, kind: &str) -> Vec<Block> {
    let lines: Vec<&str> = text.lines().collect();
    let mark = format!("<!-- {kind}: ");
    let mut blocks = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        let Some(what) = line
            .strip_prefix(&mark)
            .and_then(|rest| rest.strip_suffix(" -->"))
        else {
            continue;
        };
        assert!(
            lines[index + 1].starts_with("```"),
            "no block behind {line}"
        );
        let start = index + 2;
        let length = lines[start..]
            .iter()
            .position(|line| *line == "```")
            .expect("an open block");
        blocks.push(Block {
            what: what.to_owned(),
            lines: start..start + length,
        });
    }
    blocks
}

/// Compares each block of a kind with what it should be, or writes it anew.
fn check(kind: &str, current: impl Fn(&str) -> String, same: impl Fn(&str, &str) -> bool) {
    let update = std::env::var_os("UPDATE_TRANSCRIPTS").is_some();
    let mut looked_at = 0;
    for document in DOCUMENTS {
        let path = root().join(document);
        let text = fs::read_to_string(&path).unwrap();
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        // From the end, so that earlier places stay where they are.
        for block in blocks(&text, kind).into_iter().rev() {
            looked_at += 1;
            let shown = lines[block.lines.clone()].join("\n");
            let current = current(&block.what);
            let current = current.trim_end();
            if update {
                lines.splice(block.lines, current.lines().map(str::to_owned));
            } else {
                assert!(
                    same(&shown, current),
                    "{document} shows of `{}`:\n{shown}\nand it is:\n{current}",
                    block.what
                );
            }
        }
        if update {
            let now = fs::read_to_string(&path).unwrap();
            assert_eq!(now, text, "{document} was changed meanwhile: once more");
            fs::write(&path, lines.join("\n") + "\n").unwrap();
        }
    }
    assert!(looked_at > 0, "no document has a block of kind {kind}");
}

#[test]
fn files_in_documents_are_the_files() {
    check(
        "file",
        |file| fs::read_to_string(root().join(file)).unwrap(),
        |one, other| one == other,
    );
}

#[test]
fn transcript_of_the_readme_is_what_the_command_prints() {
    check("transcript", output_of, same_but_for_machines);
}

fn output_of(command: &str) -> String {
    let words: Vec<&str> = command.split_whitespace().collect();
    assert_eq!(words[0], "numalab");
    let output = assert_cmd::Command::cargo_bin("numalab")
        .unwrap()
        .args(&words[1..])
        // What is shown is what a guest does now, and how it is shown the first time.
        .env("NUMALAB_PROVE_AGAIN", "1")
        .current_dir(root())
        .output()
        .unwrap();
    let mut text = String::new();
    for line in String::from_utf8(output.stdout).unwrap().lines() {
        // Where the run lies is another place each time.
        match line.strip_prefix("report: ") {
            Some(_) => text.push_str("report: target/numalab/runs/...\n"),
            None => writeln!(text, "{line}").unwrap(),
        }
    }
    assert!(
        !text.is_empty(),
        "{command}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    text
}

fn same_but_for_machines(one: &str, other: &str) -> bool {
    let head = |text: &str| text.lines().take(2).map(str::to_owned).collect::<Vec<_>>();
    if head(one) == head(other) {
        return one == other;
    }
    plain(one) == plain(other)
}

/// Without digits, and without how they are set: values of all seeds may be one number or a
/// range.
fn plain(text: &str) -> Vec<String> {
    let number = regex::Regex::new(r"[0-9]+( to [0-9]+)?").unwrap();
    let line = |line: &str| {
        let words = line.split_whitespace().collect::<Vec<_>>().join(" ");
        number.replace_all(&words, "#").into_owned()
    };
    text.lines().skip(2).map(line).collect()
}

#[test]
fn another_machine_s_digits_are_no_difference() {
    let here = "linux (image 1)\nqemu\n  pinned: updates   4120 to 4121   0  = 0\n x  fail  pass";
    let there = "linux (image 2)\nqemu\n  pinned: updates  4117  0  = 0\n x fail pass";
    assert!(same_but_for_machines(here, there));
    // Digits count where the images are the same, and words everywhere.
    assert!(!same_but_for_machines(
        here,
        &there.replace("image 2", "image 1")
    ));
    assert!(!same_but_for_machines(here, &there.replace("fail", "pass")));
}
