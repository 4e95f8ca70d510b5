//! Kernel options for every command, `repeat:` lines, and patches from standard input. A tiny
//! kernel is built; no guest is booted.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::source;

fn numalab(folder: &Path) -> Command {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin("numalab"));
    command
        .env("NUMALAB_CACHE", folder.join("cache"))
        .env("NUMALAB_RUNS", folder.join("runs"))
        .env("NO_COLOR", "1")
        .env_remove("NUMALAB_QEMU")
        .env_remove("NEXTEST_WORKSPACE_ROOT")
        .current_dir(folder);
    command
}

#[track_caller]
fn output(command: &mut Command, input: &str) -> Output {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), input.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn every_command_that_builds_kernels_takes_set() {
    let folder = tempfile::tempdir().unwrap();
    source::write(folder.path());
    std::fs::write(folder.path().join("fix.patch"), source::COMMENT_PATCH).unwrap();
    let git = |words: &[&str]| {
        let mut command = Command::new("git");
        command
            .args(["-c", "user.name=x", "-c", "user.email=x@y"])
            .args(words);
        let status = command
            .current_dir(folder.path().join("tiny"))
            .status()
            .unwrap();
        assert!(status.success(), "{words:?}");
    };
    git(&["init", "--quiet"]);
    git(&["add", "--all"]);
    git(&["commit", "--quiet", "-m", "good"]);
    git(&["commit", "--quiet", "--allow-empty", "-m", "bad"]);
    let scenario = "smoke/one-node";
    for (words, code) in [
        (vec!["run", scenario, "--kernel", "tiny"], 2),
        (vec!["kernel", "build", "tiny"], 2),
        (vec!["compare", "tiny", "tiny", scenario], 2),
        (vec!["check", "fix.patch", "--base", "tiny"], 2),
        (vec!["watch", "--tree", "tiny", scenario], 2),
        (
            vec![
                "bisect", "--repo", "tiny", "--good", "HEAD~1", "--bad", "HEAD", scenario,
            ],
            2,
        ),
        (vec!["judge", scenario], 129),
    ] {
        let mut command = numalab(folder.path());
        if words[0] == "judge" {
            command.current_dir(folder.path().join("tiny"));
        }
        let output = output(command.args(&words).args(["--set", "HZ=250"]), "");
        let errors = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{words:?}: {errors}");
        assert!(
            errors.contains("an option begins with CONFIG_"),
            "{words:?}: {errors}"
        );
    }
}

#[test]
fn a_check_of_standard_input_can_be_repeated_from_any_folder() {
    let folder = tempfile::tempdir().unwrap();
    source::write(folder.path());
    let words = [
        "check",
        "-",
        "--base",
        "tiny.yaml",
        "--set",
        "CONFIG_TINY=y",
        "-S",
        "smoke",
    ];
    let first = output(numalab(folder.path()).args(words), source::COMMENT_PATCH);
    let report = text(&first.stdout);
    assert!(
        report.contains("changes nothing"),
        "{report}{}",
        text(&first.stderr)
    );
    assert!(report.contains("tiny+TINY=y"), "{report}");
    let repeat = report
        .lines()
        .find_map(|line| line.strip_prefix("repeat: "))
        .unwrap();
    let kept = repeat.split(' ').nth(2).unwrap();
    assert_eq!(
        std::fs::read_to_string(kept).unwrap(),
        source::COMMENT_PATCH
    );
    assert!(
        Path::new(kept).with_file_name("report.json").exists(),
        "{repeat}"
    );
    let elsewhere = tempfile::tempdir().unwrap();
    let words = shell_words::split(repeat).unwrap();
    assert!(words.ends_with(&["--set".to_owned(), "CONFIG_TINY=y".to_owned()]));
    let mut command = numalab(folder.path());
    let again = output(command.args(&words[1..]).current_dir(elsewhere.path()), "");
    let again_report = text(&again.stdout);
    assert_eq!(
        again.status.code(),
        first.status.code(),
        "{}",
        text(&again.stderr)
    );
    assert!(
        again_report.contains(&format!("repeat: {repeat}\n")),
        "{again_report}"
    );
}

#[test]
fn the_first_signal_ends_the_wait_for_standard_input() {
    let folder = tempfile::tempdir().unwrap();
    source::write(folder.path());
    let mut child = numalab(folder.path())
        .args(["check", "-", "--base", "tiny.yaml"])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // It stays open until the end.
    let input = child.stdin.take();
    let mut errors = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    errors.read_line(&mut line).unwrap();
    assert_eq!(line, "reading patches from standard input\n");
    let kill = Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status();
    assert!(kill.unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(130));
    drop(input);
}
