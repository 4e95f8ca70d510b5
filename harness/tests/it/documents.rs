//! Checks the documents: transcripts are what their commands print, files are quoted
//! literally, and links lead somewhere.
//!
//! `UPDATE_TRANSCRIPTS=1` updates transcripts and files. The digits of a transcript depend on
//! the kernels' images and on QEMU: if its first two lines, which name both, are not those of
//! this machine, everything but the digits is compared.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

/// The documents, relative to the project's root.
fn documents() -> Vec<String> {
    let mut documents = vec![
        "README.md".to_owned(),
        "CONTRIBUTING.md".to_owned(),
        "ARCHITECTURE.md".to_owned(),
    ];
    let mut pages: Vec<String> = fs::read_dir(root().join("docs/src"))
        .unwrap()
        .map(|page| page.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.ends_with(".md"))
        .map(|name| format!("docs/src/{name}"))
        .collect();
    pages.sort();
    documents.append(&mut pages);
    documents
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("a crate lies in a workspace")
        .to_owned()
}

#[test]
fn the_scenario_reference_is_current() {
    let path = root().join("docs/src/scenario-reference.md");
    let reference = numalab::scenario::reference();
    if std::env::var_os("UPDATE_TRANSCRIPTS").is_some() {
        fs::write(&path, &reference).unwrap();
    }
    let shown = fs::read_to_string(&path).unwrap();
    assert!(
        shown == reference,
        "{} is not current: UPDATE_TRANSCRIPTS=1 updates it",
        path.display()
    );
}

/// A fenced block after a comment `<!-- KIND: WHAT -->`.
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
        assert!(lines[index + 1].starts_with("```"), "no block after {line}");
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

/// Compares each block of a kind with its current content, or updates it.
fn check(kind: &str, current: impl Fn(&str) -> String, same: impl Fn(&str, &str) -> bool) {
    let update = std::env::var_os("UPDATE_TRANSCRIPTS").is_some();
    let mut checked = 0;
    for document in documents() {
        let path = root().join(&document);
        let text = fs::read_to_string(&path).unwrap();
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        // From the end, so that the line numbers of earlier blocks stay valid.
        for block in blocks(&text, kind).into_iter().rev() {
            checked += 1;
            let shown = lines[block.lines.clone()].join("\n");
            let current = current(&block.what);
            let current = current.trim_end();
            if update {
                lines.splice(block.lines, current.lines().map(str::to_owned));
            } else {
                assert!(
                    same(&shown, current),
                    "{document} has for `{}`:\n{shown}\nbut it should be:\n{current}",
                    block.what
                );
            }
        }
        if update {
            let now = fs::read_to_string(&path).unwrap();
            assert_eq!(now, text, "{document} has changed meanwhile: try again");
            fs::write(&path, lines.join("\n") + "\n").unwrap();
        }
    }
    assert!(checked > 0, "no document has a block of kind {kind}");
}

#[test]
fn quoted_files_are_current() {
    check(
        "file",
        |file| fs::read_to_string(root().join(file)).unwrap(),
        |one, other| one == other,
    );
}

/// The anchors of a page's headings, as mdBook and GitHub make them.
fn anchors(text: &str) -> Vec<String> {
    let headings = text.lines().filter(|line| line.starts_with('#'));
    let anchor = |heading: &str| {
        let heading = heading.trim_start_matches('#').trim().to_lowercase();
        let kept = |c: &char| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_');
        heading
            .chars()
            .filter(kept)
            .collect::<String>()
            .replace(' ', "-")
    };
    headings.map(anchor).collect()
}

/// What is wrong with a link of a document.
fn broken_link(document: &str, link: &str) -> Option<String> {
    if link.contains("://") {
        return None;
    }
    let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
    let from = root().join(document);
    let path = match file {
        "" => from,
        file => from.parent().unwrap().join(file),
    };
    if !path.exists() {
        return Some(format!("{document}: {link}: no such file"));
    }
    let found = anchor.is_empty()
        || anchors(&fs::read_to_string(path).unwrap())
            .iter()
            .any(|a| a == anchor);
    (!found).then(|| format!("{document}: {link}: no such heading"))
}

#[test]
fn links_lead_somewhere() {
    let link = regex::Regex::new(r"\]\(([^)\s]+)\)").unwrap();
    // Code may contain what looks like a link.
    let code = regex::Regex::new(r"(?s)```.*?\n```|`[^`\n]*`").unwrap();
    let mut broken = Vec::new();
    for document in documents() {
        let text = fs::read_to_string(root().join(&document)).unwrap();
        for found in link.captures_iter(&code.replace_all(&text, "")) {
            broken.extend(broken_link(&document, &found[1]));
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
    assert!(broken_link("README.md", "docs/src/no-such-page.md").is_some());
    assert!(broken_link("README.md", "#no-such-heading").is_some());
}

#[test]
fn the_summary_lists_every_page() {
    let summary = fs::read_to_string(root().join("docs/src/SUMMARY.md")).unwrap();
    for document in documents() {
        let Some(page) = document.strip_prefix("docs/src/") else {
            continue;
        };
        assert!(
            page == "SUMMARY.md" || summary.contains(&format!("]({page})")),
            "SUMMARY.md does not list {page}"
        );
    }
}

#[test]
fn the_readme_is_short() {
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    assert!(readme.lines().count() <= 120);
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
        // Run the guests, and print what a first run prints.
        .env("NUMALAB_PROVE_AGAIN", "1")
        .current_dir(root())
        .output()
        .unwrap();
    let mut text = String::new();
    for line in String::from_utf8(output.stdout).unwrap().lines() {
        // The folder has another name each time.
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

/// Without digits and alignment; the values of all seeds may be one number or a range.
fn plain(text: &str) -> Vec<String> {
    let number = regex::Regex::new(r"[0-9]+( to [0-9]+)?").unwrap();
    let line = |line: &str| {
        let words = line.split_whitespace().collect::<Vec<_>>().join(" ");
        number.replace_all(&words, "#").into_owned()
    };
    text.lines().skip(2).map(line).collect()
}

#[test]
fn digits_of_other_machines_are_ignored() {
    let here = "linux (image 1)\nqemu\n  pinned: updates   4120 to 4121   0  = 0\n x  fail  pass";
    let there = "linux (image 2)\nqemu\n  pinned: updates  4117  0  = 0\n x fail pass";
    assert!(same_but_for_machines(here, there));
    // Digits count if the images are the same, and words always.
    assert!(!same_but_for_machines(
        here,
        &there.replace("image 2", "image 1")
    ));
    assert!(!same_but_for_machines(here, &there.replace("fail", "pass")));
}
