//! `numalab bisect` and `numalab judge` from outside: words, exit codes, and what
//! `git bisect run` makes of these. No kernel is built and no guest is booted.

use std::fs;
use std::path::Path;
use std::process::Output;

use assert_cmd::Command;
use predicates::str::contains;

fn numalab(folder: &Path) -> Command {
    let mut command = Command::cargo_bin("numalab").expect("it is built with this test");
    command
        .env("NUMALAB_CACHE", folder.join("cache"))
        .env("NUMALAB_RUNS", folder.join("runs"))
        .env("NO_COLOR", "1")
        .env_remove("NUMALAB_QEMU")
        .current_dir(folder.join("tree"));
    command
}

#[track_caller]
fn git(folder: &Path, words: &[&str]) -> Output {
    std::process::Command::new("git")
        .args(["-c", "user.name=x", "-c", "user.email=x@y"])
        .args(words)
        .current_dir(folder.join("tree"))
        .env("NUMALAB_CACHE", folder.join("cache"))
        .env("NUMALAB_RUNS", folder.join("runs"))
        .output()
        .unwrap()
}

/// A repository with ten commits that looks like a kernel's.
fn bench() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let tree = folder.path().join("tree");
    fs::create_dir(&tree).unwrap();
    let makefile = "VERSION = 6\nPATCHLEVEL = 12\nSUBLEVEL = 1\n";
    fs::write(tree.join("Makefile"), makefile).unwrap();
    fs::write(tree.join("Kconfig"), "").unwrap();
    let init = ["init", "--quiet", "--initial-branch=main"];
    assert!(git(folder.path(), &init).status.success());
    for number in 0..10 {
        fs::write(tree.join("number"), number.to_string()).unwrap();
        git(folder.path(), &["add", "--all"]);
        let message = format!("number {number}");
        git(folder.path(), &["commit", "--quiet", "-m", &message]);
        let tag = format!("v{number}");
        assert!(git(folder.path(), &["tag", &tag]).status.success());
    }
    folder
}

const SCENARIO: &str = "vma/late-vma-scan";

#[test]
fn wrong_ends_and_words_are_wrong_input() {
    let bench = bench();
    let table: [(&[&str], &str); 11] = [
        (
            &["--good", "v1", "--bad", "v1", SCENARIO],
            "the same commit",
        ),
        (
            &["--good", "v9", "--bad", "v1", SCENARIO],
            "must be the older one",
        ),
        (&["--good", "v1", "--bad", "v11", SCENARIO], "did you mean"),
        (&["--good", "v1", SCENARIO], "--bad"),
        (
            &["--good", "v1", "--bad", "v9", "vma/late-vma-scam"],
            "did you mean vma/late-vma-scan?",
        ),
        (
            &["--good", "v1", "--bad", "v9", "vma", "cpuset"],
            "unexpected argument",
        ),
        (
            &["--repo", "..", "--good", "v1", "--bad", "v9", SCENARIO],
            "is no git repository",
        ),
        (
            &[
                "--good",
                "v1",
                "--bad",
                "v9",
                "--apply",
                "none.patch",
                SCENARIO,
            ],
            "none.patch",
        ),
        (
            &[
                "--good",
                "v1",
                "--bad",
                "v9",
                "--config-fragment",
                "none.config",
                SCENARIO,
            ],
            "none.config",
        ),
        (
            &[
                "--good", "v1", "--bad", "v9", "--mode", "live", "--rate", "0.2", "--noise", "0.2",
                SCENARIO,
            ],
            "too much alike",
        ),
        (
            &[
                "--good",
                "v1",
                "--bad",
                "v9",
                "--mode",
                "live",
                "--confidence",
                "1",
                SCENARIO,
            ],
            "the confidence is 1",
        ),
    ];
    for (words, message) in table {
        numalab(bench.path())
            .arg("bisect")
            .args(words)
            .assert()
            .code(2)
            .stderr(contains(message));
    }
}

#[test]
fn a_judge_that_cannot_judge_stops_git() {
    let bench = bench();
    fs::write(bench.path().join("none.qemu"), "").unwrap();
    // Whose fault it is, as clap, the project, the machine and Rust report it.
    let none = ("NUMALAB_NOTHING", "");
    let table: [(&[&str], (&str, &str), u8); 6] = [
        (&["vma/late-vma-scam"], none, 129),
        (&[], none, 129),
        (&[SCENARIO, "--frobnicate"], none, 129),
        (&["--help"], none, 129),
        (&[SCENARIO], ("NUMALAB_QEMU", "/nonexistent/qemu"), 131),
        (&[SCENARIO], ("TOKIO_WORKER_THREADS", "0"), 134),
    ];
    for (words, (variable, value), code) in table {
        let mut command = numalab(bench.path());
        command.env(variable, value);
        command
            .arg("judge")
            .args(words)
            .assert()
            .code(i32::from(code));
    }
    // Options before the word do not hide which command it is.
    numalab(bench.path())
        .args(["--quiet", "judge", "vma/late-vma-scam"])
        .assert()
        .code(129);
    // The other commands keep their codes.
    numalab(bench.path()).args(["run", "vma"]).assert().code(2);
}

#[test]
fn git_bisect_run_marks_nothing_when_the_judge_fails() {
    let bench = bench();
    let program = assert_cmd::cargo::cargo_bin("numalab");
    let program = program.to_string_lossy().into_owned();
    for words in [
        vec![program.as_str(), "judge", "vma/late-vma-scam"],
        vec!["env", "TOKIO_WORKER_THREADS=0", &program, "judge", SCENARIO],
        vec![
            "env",
            "NUMALAB_QEMU=/nonexistent/qemu",
            &program,
            "judge",
            SCENARIO,
        ],
    ] {
        git(bench.path(), &["bisect", "start", "v9", "v0"]);
        let refs = || git(bench.path(), &["for-each-ref", "refs/bisect"]).stdout;
        let before = refs();
        let run: Vec<&str> = ["bisect", "run"].into_iter().chain(words.clone()).collect();
        let output = git(bench.path(), &run);
        assert!(!output.status.success(), "{words:?}: {output:?}");
        assert_eq!(refs(), before, "{words:?}: {output:?}");
        git(bench.path(), &["bisect", "reset"]);
    }
}

#[test]
fn a_folder_that_is_no_kernel_is_no_commit_s_fault() {
    let bench = bench();
    fs::remove_file(bench.path().join("tree/Kconfig")).unwrap();
    numalab(bench.path())
        .args(["judge", SCENARIO])
        .assert()
        .code(129)
        .stderr(contains("Kconfig"));
}

#[test]
fn judge_stops_git_at_terms_that_do_not_say_which_commits_pass() {
    let bench = bench();
    let start = [
        "bisect",
        "start",
        "--term-old=slow",
        "--term-new=fast",
        "v9",
        "v0",
    ];
    assert!(git(bench.path(), &start).status.success());
    numalab(bench.path())
        .args(["judge", SCENARIO])
        .assert()
        .code(129)
        .stderr(contains("\"slow\" and \"fast\""));
    git(bench.path(), &["bisect", "reset"]);
    // What git itself calls them is fine: here only the scenario is wrong.
    for [old, new] in [["old", "new"], ["good", "bad"]] {
        git(bench.path(), &["bisect", "start"]);
        git(bench.path(), &["bisect", old, "v0"]);
        git(bench.path(), &["bisect", new, "v9"]);
        let mut judge = numalab(bench.path());
        let judge = judge.args(["judge", "smoke/one-nod"]).assert().code(129);
        judge.stderr(contains("did you mean smoke/one-node?"));
        git(bench.path(), &["bisect", "reset"]);
    }
}

/// A QEMU that tells its version, and ends at once when it is to run a guest.
fn failing_qemu(folder: &Path) -> std::path::PathBuf {
    use std::os::unix::fs::PermissionsExt as _;
    let path = folder.join("qemu");
    let script = "#!/bin/sh\n\
        case \"$*\" in *-version*) echo 'QEMU emulator version 9.2.0'; exit;; esac\n\
        exit 1\n";
    fs::write(&path, script).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

/// A bare clone of a repository with three commits of the tiny source, and git's bisection in
/// it, in which git asks about the commit in the middle.
fn bare_bisection() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    crate::source::write(folder.path());
    fs::rename(folder.path().join("tiny"), folder.path().join("tree")).unwrap();
    git(folder.path(), &["init", "--quiet", "--initial-branch=main"]);
    for name in ["first", "middle", "last"] {
        fs::write(folder.path().join("tree/name"), name).unwrap();
        git(folder.path(), &["add", "--all"]);
        git(folder.path(), &["commit", "--quiet", "-m", name]);
    }
    git(
        folder.path(),
        &["clone", "--quiet", "--bare", ".", "../bare"],
    );
    let start = ["-C", "../bare", "bisect", "start", "main", "main~2"];
    assert!(git(folder.path(), &start).status.success());
    folder
}

#[test]
fn judge_judges_the_commit_that_git_asks_about_and_stops_git_where_the_machine_fails() {
    let folder = bare_bisection();
    let mut judge = numalab(folder.path());
    let judge = judge
        .env("NUMALAB_QEMU", failing_qemu(folder.path()))
        .current_dir(folder.path().join("bare"))
        .args(["judge", "smoke/one-node", "--seeds", "1"])
        .assert()
        .code(131);
    judge
        .stderr(contains(
            "(\"middle\") cannot be judged, and this machine may be the cause",
        ))
        .stderr(contains("seed 1 ran again"));
}

#[test]
fn a_bisection_names_what_this_machine_may_have_failed_at() {
    let folder = bare_bisection();
    let bisect = || {
        let mut bisect = numalab(folder.path());
        let bisect = bisect
            .env("NUMALAB_QEMU", failing_qemu(folder.path()))
            .args([
                "bisect", "--good", "main~2", "--bad", "main", "--seeds", "1",
            ])
            .arg("smoke/one-node");
        bisect
            .assert()
            .code(3)
            .stdout(contains("this machine may be the cause"))
    };
    bisect().stderr(contains("judging the good end"));
    // It is not remembered.
    bisect().stderr(contains("judging the good end"));
}
