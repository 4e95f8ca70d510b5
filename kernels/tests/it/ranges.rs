//! Revision ranges: the commits of a user's repository, which is only read.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use numalab_kernels::series::{Series, SeriesError, read};
use numalab_kernels::spec::{Direction, Origin};
use numalab_kernels::{Cache, ErrorKind};
use tempfile::TempDir;

use crate::bench::Bench;

/// A repository with four commits, and a cache.
struct Forge {
    folder: TempDir,
}

impl Forge {
    fn new() -> Self {
        let forge = Self {
            folder: tempfile::tempdir().unwrap(),
        };
        fs::create_dir(forge.repository()).unwrap();
        let here = forge.repository();
        git(&here, &["init", "--quiet", "--initial-branch=main"]);
        for (subject, text) in [
            ("first", "1\n"),
            ("second", "2\n"),
            ("third: für", "3\n"),
            ("fourth", "4\n"),
        ] {
            forge.commit(subject, "a b.c", text);
        }
        forge
    }

    fn repository(&self) -> PathBuf {
        self.folder.path().join("my repository")
    }

    fn commit(&self, subject: &str, file: &str, text: &str) {
        let here = self.repository();
        fs::write(here.join(file), text).unwrap();
        git(&here, &["add", "--all"]);
        git(
            &here,
            &["commit", "--quiet", "--allow-empty", "-m", subject],
        );
    }

    fn try_read(&self, word: &str, cwd: &Path) -> Result<Series, SeriesError> {
        let cache = Cache::open(self.folder.path().join("cache")).unwrap();
        read(&[word.to_owned()], Direction::Apply, cwd, &cache)
    }

    #[track_caller]
    fn fails(&self, word: &str, cwd: &Path) -> String {
        let error = self.try_read(word, cwd).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Input, "{error:?}");
        error.to_string()
    }
}

#[track_caller]
fn git(here: &Path, arguments: &[&str]) -> String {
    let output = Command::new("git")
        .args(["-c", "user.name=A", "-c", "user.email=a@example.org"])
        .args(["-c", "protocol.file.allow=always"])
        .args(arguments)
        .current_dir(here)
        .output()
        .unwrap();
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

fn subjects(series: &Series) -> Vec<String> {
    let subject = |patch: &numalab_kernels::spec::Patch| {
        format!(
            "{} {}",
            patch.number.unwrap(),
            patch.subject.clone().unwrap()
        )
    };
    series.patches.iter().map(subject).collect()
}

/// All files below a folder, with their contents and times.
fn state(folder: &Path) -> Vec<(PathBuf, std::time::SystemTime, Vec<u8>)> {
    let mut found = Vec::new();
    for item in fs::read_dir(folder).unwrap() {
        let path = item.unwrap().path();
        let time = fs::metadata(&path).unwrap().modified().unwrap();
        if path.is_dir() {
            found.push((path.clone(), time, Vec::new()));
            found.extend(state(&path));
        } else {
            found.push((path.clone(), time, fs::read(&path).unwrap()));
        }
    }
    found.sort();
    found
}

#[test]
fn the_commits_of_a_range_are_a_series_and_the_repository_stays_as_it_was() {
    let forge = Forge::new();
    let here = forge.repository();
    // Settings that would change what git shows.
    for setting in [
        "diff.noprefix=true",
        "diff.external=false",
        "format.pretty=oneline",
        "log.showSignature=true",
        "color.ui=always",
        "core.quotePath=false",
    ] {
        let (name, value) = setting.split_once('=').unwrap();
        git(&here, &["config", name, value]);
    }
    // A dirty tree, whose index git would like to refresh.
    fs::write(here.join("a b.c"), "dirty\n").unwrap();
    let before = state(&here);
    let series = forge.try_read("HEAD~2..", &here).unwrap();
    assert_eq!(subjects(&series), ["1/2 third: für", "2/2 fourth"]);
    assert_eq!(series.name, "HEAD~2..HEAD");
    assert_eq!(
        series.base_commit,
        Some(git(&here, &["rev-parse", "HEAD~2"]))
    );
    let text = String::from_utf8(series.patches[0].bytes.clone()).unwrap();
    assert!(
        text.contains("--- a/a b.c\t\n+++ b/a b.c\t\n@@ -1 +1 @@\n-2\n+3\n"),
        "{text}"
    );
    assert!(state(&here) == before, "the repository was written to");
}

#[test]
fn a_repository_is_found_from_within_bare_and_by_its_path() {
    let forge = Forge::new();
    let here = forge.repository();
    fs::create_dir(here.join("sub")).unwrap();
    let outside = forge.folder.path();
    git(
        outside,
        &["clone", "--quiet", "--bare", "my repository", "bare"],
    );
    git(&here, &["worktree", "add", "--quiet", "../tree"]);
    for (word, cwd) in [
        ("main~1..main", here.join("sub")),
        ("main~1..main", outside.join("bare")),
        ("main~1..main", outside.join("tree")),
        ("git:my repository@main~1..main", outside.to_owned()),
        ("git:../bare@main~1..main", here.clone()),
    ] {
        let series = forge.try_read(word, &cwd).unwrap();
        assert_eq!(subjects(&series), ["1/1 fourth"], "{word} in {cwd:?}");
        assert_eq!(series.title.as_deref(), Some("fourth"));
    }
}

#[test]
fn what_is_no_series_is_told() {
    let forge = Forge::new();
    let here = forge.repository();
    git(&here, &["checkout", "--quiet", "-b", "side", "HEAD~1"]);
    forge.commit("side", "other.c", "x\n");
    git(&here, &["checkout", "--quiet", "main"]);
    git(&here, &["merge", "--quiet", "--no-edit", "side"]);
    git(&here, &["checkout", "--quiet", "--orphan", "new"]);
    forge.commit("orphan", "a b.c", "x\n");
    for (word, expected) in [
        ("main~1..main", "it has the merge"),
        (
            "main..main~1",
            "there are no commits in it: main contains main~1",
        ),
        ("nope..main", "\"nope\" is no commit of "),
        ("main..nope", "\"nope\" is no commit of "),
        ("main..new", "main and new have no history in common"),
    ] {
        let said = forge.fails(word, &here);
        assert!(said.contains(expected), "{word}: {said}");
    }
    let said = forge.fails("a..b", &std::env::temp_dir());
    assert!(said.contains("is no git repository"), "{said}");
}

#[test]
fn a_side_branch_and_an_empty_commit_are_noted() {
    let forge = Forge::new();
    let here = forge.repository();
    git(&here, &["checkout", "--quiet", "-b", "side", "HEAD~1"]);
    forge.commit("side", "other.c", "x\n");
    git(
        &here,
        &["commit", "--quiet", "--allow-empty", "-m", "nothing"],
    );
    let series = forge.try_read("main..side", &here).unwrap();
    assert_eq!(subjects(&series), ["1/1 side"]);
    assert!(
        series.notes[0].contains("main is no ancestor of side"),
        "{:?}",
        series.notes
    );
    assert!(
        series.notes[1].contains("(\"nothing\") changes nothing"),
        "{:?}",
        series.notes
    );
}

#[test]
fn history_and_objects_that_are_not_here_are_told() {
    let forge = Forge::new();
    let outside = forge.folder.path();
    let url = format!("file://{}", forge.repository().display());
    git(
        &forge.repository(),
        &["config", "uploadpack.allowFilter", "true"],
    );
    git(outside, &["clone", "--quiet", "--depth=2", &url, "shallow"]);
    let said = forge.fails("HEAD~3..HEAD", &outside.join("shallow"));
    assert!(said.contains("the repository is shallow"), "{said}");
    git(
        outside,
        &[
            "clone",
            "--quiet",
            "--no-checkout",
            "--filter=blob:none",
            &url,
            "partial",
        ],
    );
    let partial = outside.join("partial");
    let before = state(&partial);
    let said = forge.fails("HEAD~1..HEAD", &partial);
    assert!(
        said.contains("are not here") && said.contains("is a partial or damaged clone"),
        "{said}"
    );
    assert!(state(&partial) == before, "the repository was written to");
}

/// Where a merge hides the boundary of a shallow clone, git would list commits that the start
/// of the range already has.
#[test]
fn a_range_that_crosses_the_boundary_of_a_shallow_clone_is_refused() {
    let forge = Forge::new();
    let here = forge.repository();
    git(&here, &["checkout", "--quiet", "-b", "side", "main~3"]);
    for number in 1..=6 {
        forge.commit(&format!("side {number}"), "other.c", &format!("{number}\n"));
    }
    git(&here, &["checkout", "--quiet", "-b", "trunk", "main~2"]);
    git(&here, &["merge", "--quiet", "--no-edit", "side"]);
    forge.commit("on top", "a b.c", "5\n");
    git(&here, &["checkout", "--quiet", "-b", "topic", "side~4"]);
    forge.commit("one", "a b.c", "6\n");
    forge.commit("two", "a b.c", "7\n");
    let series = forge.try_read("trunk..topic", &here).unwrap();
    assert_eq!(subjects(&series), ["1/2 one", "2/2 two"]);
    git(&here, &["branch", "--quiet", "-D", "side"]);
    let outside = forge.folder.path();
    let url = format!("file://{}", here.display());
    git(
        outside,
        &[
            "clone",
            "--quiet",
            "--depth=5",
            "--no-single-branch",
            &url,
            "shallow",
        ],
    );
    let shallow = outside.join("shallow");
    // git lists `side 1` and `side 2`, too: what shows that trunk has them is cut off.
    let listed = git(&shallow, &["rev-list", "--count", "origin/trunk..topic"]);
    assert_eq!(listed, "4");
    let said = forge.fails("origin/trunk..topic", &shallow);
    assert!(said.contains("its history is cut at"), "{said}");
    assert!(said.contains("git fetch --unshallow"), "{said}");
    // Nothing is missing between these.
    let series = forge.try_read("topic~2..topic", &shallow).unwrap();
    assert_eq!(subjects(&series), ["1/2 one", "2/2 two"]);
}

#[test]
fn a_range_on_a_commit_is_of_its_repository() {
    let forge = Forge::new();
    let here = forge.repository();
    for name in ["Makefile", "Kconfig"] {
        fs::write(here.join(name), "x\n").unwrap();
    }
    forge.commit("kernel", "a b.c", "5\n");
    forge.commit("fix", "a b.c", "6\n");
    let bench = Bench::new();
    bench.define(
        "linux-6.12",
        "summary: x\nsource: {directory: source}\nset: {CONFIG_SMALL: y}\n",
    );
    let word = format!(
        "git:{}@HEAD~1+HEAD~1..+revert:HEAD~2..HEAD~1",
        here.display()
    );
    let wanted = bench.wanted(&word);
    let Origin::Recipe(recipe) = &wanted.origin else {
        panic!("it is built");
    };
    let patches: Vec<_> = recipe
        .patches
        .iter()
        .map(|patch| (patch.subject.as_deref().unwrap(), patch.direction))
        .collect();
    assert_eq!(
        patches,
        [("fix", Direction::Apply), ("kernel", Direction::Revert)]
    );
    // The word of it means the same from elsewhere.
    assert_eq!(bench.wanted(&wanted.word).origin, wanted.origin);
}

#[test]
fn what_git_makes_of_a_range_for_mail_is_the_same_series() {
    let forge = Forge::new();
    let here = forge.repository();
    let hunks = |series: &Series| -> Vec<String> {
        let text = |patch: &numalab_kernels::spec::Patch| {
            let text = String::from_utf8(patch.bytes.clone()).unwrap();
            let hunk = text.split("@@ -1 +1 @@\n").nth(1).unwrap();
            hunk.lines().take(2).collect::<Vec<_>>().join("|")
        };
        series.patches.iter().map(text).collect()
    };
    let expected = forge.try_read("HEAD~2..HEAD", &here).unwrap();
    assert_eq!(hunks(&expected), ["-2|+3", "-3|+4"]);
    let base = git(&here, &["rev-parse", "HEAD~2"]);
    let cases: [&[&str]; 9] = [
        &[],
        &["--attach"],
        &["--inline"],
        &["--cover-letter"],
        &[
            "--rfc",
            "-v3",
            "--cover-letter",
            "--range-diff=HEAD~3..HEAD~1",
        ],
        &["-v2", "--cover-letter", "--interdiff=HEAD~1"],
        &["--base=HEAD~2", "--zero-commit", "--no-signature"],
        &["--binary", "--full-index", "--no-stat", "-U0"],
        &[
            "--subject-prefix=RFC net-next",
            "--thread",
            "--add-header=X-A: b",
        ],
    ];
    for options in cases {
        let mut words = vec!["format-patch", "--stdout"];
        words.extend(options);
        words.push("HEAD~2");
        let mails = git(&here, &words);
        fs::write(here.join("x.mbox"), mails + "\n").unwrap();
        let series = forge
            .try_read("x.mbox", &here)
            .unwrap_or_else(|error| panic!("{options:?}: {error}"));
        assert_eq!(subjects(&series), subjects(&expected), "{options:?}");
        assert_eq!(hunks(&series), hunks(&expected), "{options:?}");
        let says = options.contains(&"--base=HEAD~2").then(|| base.clone());
        assert_eq!(series.base_commit, says, "{options:?}");
    }
}
