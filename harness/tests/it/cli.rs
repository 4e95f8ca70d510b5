//! The command from outside: words, messages, exit codes. No guest is booted.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use assert_cmd::Command;
use predicates::prelude::PredicateBooleanExt as _;
use predicates::str::contains;

/// The command with a cache and a run folder of its own.
fn numalab(folder: &Path) -> Command {
    let mut command = Command::cargo_bin("numalab").expect("it is built with this test");
    command
        .env("NUMALAB_CACHE", folder.join("cache"))
        .env("NUMALAB_RUNS", folder.join("runs"))
        .env("NO_COLOR", "1")
        .env_remove("NUMALAB_QEMU")
        .env_remove("NUMALAB_KERNEL")
        .env_remove("NUMALAB_BASE")
        .current_dir(folder);
    command
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary folder can be made")
}

/// A file that QEMU would boot if it were a kernel, and that is not looked at before.
fn scenario(folder: &Path, text: &str) -> String {
    let suite = folder.join("own");
    fs::create_dir_all(&suite).expect("the folder can be made");
    let file = suite.join("mine.yaml");
    fs::write(&file, text).expect("the file can be written");
    file.to_string_lossy().into_owned()
}

#[test]
fn scenarios_and_kernels_are_listed() {
    let folder = folder();
    numalab(folder.path())
        .arg("list")
        .assert()
        .code(0)
        .stdout(contains("cpuset/single-node-skip"))
        .stdout(contains("linux-6.12"));
    let json = numalab(folder.path())
        .args(["list", "--json"])
        .output()
        .unwrap()
        .stdout;
    let json: serde_json::Value = serde_json::from_slice(&json).unwrap();
    assert!(json["scenarios"].as_array().unwrap().len() >= 7);
}

#[test]
fn wrong_words_are_wrong_input() {
    let folder = folder();
    let table: [(&[&str], &str); 11] = [
        // What would be passed over in silence.
        (
            &["watch", "--tree", ".", "--budget", "5"],
            "unexpected argument '--budget'",
        ),
        (&["watch", "--tree", ".", "--json"], "prints no JSON"),
        (
            &["run", "cpuset/single-nod-skip", "--kernel", "linux-6.12"],
            "did you mean cpuset/single-node-skip?",
        ),
        (&["run", "smoke", "--kernel", "linux-6.13"], "linux-6.12"),
        (
            &[
                "run",
                "smoke",
                "--kernel",
                "linux-6.12",
                "--mode",
                "exact",
                "--accel",
                "kvm",
            ],
            "contradict",
        ),
        (
            &["run", "smoke", "--kernel", "linux-6.12", "--mode", "fast"],
            "invalid value 'fast'",
        ),
        (&["run", "smoke"], "--kernel"),
        (
            &["run", "own/none.yaml", "--kernel", "linux-6.12"],
            "own/none.yaml",
        ),
        (
            &["compare", "linux-6.12", "linux-6.12+none.patch"],
            "none.patch",
        ),
        (
            &["compare", "linux-6.12", "cpuset-skip", "--seeds", "0"],
            "0 seeds",
        ),
        (&["frobnicate"], "unrecognized subcommand"),
    ];
    for (words, message) in table {
        numalab(folder.path())
            .args(words)
            .assert()
            .code(2)
            .stderr(contains(message));
    }
}

#[test]
fn a_scenario_s_mistake_is_shown_where_it_stands() {
    let folder = folder();
    let file = scenario(
        folder.path(),
        "summary: mine\nmachine: { nodes: 2 }\nsteps:\n  - run: [ { sleep: 3 parsecs } ]\n  - run: [ { sleep: 4 ells } ]\nexpect: []\n",
    );
    numalab(folder.path())
        .args(["run", &file, "--kernel", "linux-6.12"])
        .assert()
        .code(2)
        .stderr(contains("mine.yaml:4:21"))
        .stderr(contains("is no duration such as 100ms"))
        .stderr(contains("mine.yaml:5:21"));
}

#[test]
fn an_image_that_is_no_kernel_is_refused() {
    let folder = folder();
    for (name, bytes) in [
        ("empty", &b""[..]),
        ("text", b"hello"),
        ("elf", b"\x7fELF\x02\x01\x01"),
    ] {
        let image = folder.path().join(name);
        fs::write(&image, bytes).unwrap();
        numalab(folder.path())
            .args(["run", "smoke", "--kernel"])
            .arg(&image)
            .assert()
            .code(2)
            .stderr(contains(name));
    }
}

#[test]
fn qemu_that_is_missing_or_too_old_is_inconclusive() {
    let folder = folder();
    let run = |qemu: &Path| {
        let mut command = numalab(folder.path());
        command
            .env("NUMALAB_QEMU", qemu)
            .args(["run", "smoke", "--kernel", "linux-6.12"]);
        command.assert().code(3)
    };
    run(&folder.path().join("nowhere")).stderr(contains("nowhere"));

    let old = folder.path().join("qemu-old");
    fs::write(
        &old,
        "#!/bin/sh\necho 'QEMU emulator version 7.2.22 (Debian 1:7.2)'\n",
    )
    .unwrap();
    fs::set_permissions(&old, fs::Permissions::from_mode(0o755)).unwrap();
    run(&old).stderr(contains("too old for exact mode, which needs 8.1"));

    let mut doctor = numalab(folder.path());
    doctor
        .env("NUMALAB_QEMU", &old)
        .arg("doctor")
        .assert()
        .code(3)
        .stdout(contains("MISSING  QEMU"));
}

#[test]
fn judge_is_for_kernels_wherever_they_lie() {
    let folder = folder();
    let inner = folder.path().join("linux");
    fs::create_dir_all(folder.path().join(".git")).unwrap();
    fs::create_dir_all(&inner).unwrap();
    let judge = |scenario: &str| {
        let mut command = numalab(folder.path());
        command.args(["judge", scenario]).current_dir(&inner);
        command.assert().code(129)
    };
    judge("smoke/two-nodes").stderr(contains("is not a kernel source: it has no Kconfig"));
    // Then it is the scenario that is wrong.
    fs::write(inner.join("Kconfig"), "").unwrap();
    judge("smoke/two-nodez").stderr(contains("did you mean smoke/two-nodes?"));
}

#[test]
fn a_folder_for_runs_that_is_a_file_is_found_before_any_run() {
    let folder = folder();
    fs::write(folder.path().join("runs"), "").unwrap();
    let mut doctor = numalab(folder.path());
    let doctor = doctor.arg("doctor").assert().code(3);
    doctor.stdout(contains("MISSING  runs").and(contains("NUMALAB_RUNS")));
}

#[test]
fn a_cache_that_cannot_be_written_is_said() {
    let folder = folder();
    // A file where a folder should be: root may write anywhere else.
    fs::write(folder.path().join("cache"), "").unwrap();
    numalab(folder.path())
        .args(["kernel", "build", "linux-6.12"])
        .assert()
        .code(3)
        .stderr(contains("cache"));
}

#[test]
fn what_editors_and_shells_need_is_printed() {
    let folder = folder();
    let schema = numalab(folder.path())
        .arg("schema")
        .output()
        .unwrap()
        .stdout;
    let schema: serde_json::Value = serde_json::from_slice(&schema).unwrap();
    assert_eq!(schema["title"], "numalab scenario");
    for shell in ["bash", "zsh", "fish"] {
        numalab(folder.path())
            .args(["completions", shell])
            .assert()
            .code(0)
            .stdout(contains("numalab"));
    }
    let pages = folder.path().join("man");
    numalab(folder.path())
        .arg("man")
        .arg(&pages)
        .assert()
        .code(0);
    assert!(
        fs::read_to_string(pages.join("numalab-compare.1"))
            .unwrap()
            .contains("BASE")
    );
}

#[test]
fn a_folder_that_is_no_run_cannot_be_replayed() {
    let folder = folder();
    numalab(folder.path())
        .args(["replay", "."])
        .assert()
        .code(2)
        .stderr(contains("is no run's folder"));
}

#[test]
fn an_empty_cache_can_be_listed_and_pruned() {
    let folder = folder();
    numalab(folder.path())
        .arg("cache")
        .assert()
        .code(0)
        .stdout(contains("0 entries"));
    numalab(folder.path())
        .args(["cache", "prune"])
        .assert()
        .code(0)
        .stdout(contains("0 entries removed"));
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let folder = folder();
    let mut shell = std::process::Command::new("sh");
    let program = assert_cmd::cargo::cargo_bin("numalab");
    shell
        .args([
            "-c",
            "\"$0\" schema | true; echo done",
            program.to_str().unwrap(),
        ])
        .current_dir(folder.path());
    let output = shell.output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}

#[test]
fn progress_that_nobody_can_read_is_no_reason_to_stop() {
    let folder = folder();
    let mut shell = std::process::Command::new("sh");
    let program = assert_cmd::cargo::cargo_bin("numalab");
    shell
        .args([
            "-c",
            "\"$0\" run nosuch --kernel linux-6.12 2>/dev/full; echo $?",
        ])
        .arg(program)
        .current_dir(folder.path());
    let output = shell.output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "2\n");
}

#[test]
fn help_that_cannot_be_printed_is_an_error() {
    for words in [&["--help"][..], &["--version"], &["check", "--help"]] {
        let output = std::process::Command::new(assert_cmd::cargo::cargo_bin("numalab"))
            .args(words)
            .stdout(fs::File::options().write(true).open("/dev/full").unwrap())
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(3), "{words:?}");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(errors.contains("cannot write standard output"), "{errors}");
    }
}

#[test]
fn each_command_s_help_has_its_exit_codes_and_an_example() {
    for words in [
        &["doctor"][..],
        &["list"],
        &["kernel", "build"],
        &["run"],
        &["compare"],
        &["watch"],
        &["check"],
        &["bisect"],
        &["replay"],
        &["bundle"],
        &["schema"],
        &["cache"],
        &["completions"],
        &["man"],
    ] {
        let help = numalab(folder().path()).args(words).arg("--help").output();
        let help = String::from_utf8(help.unwrap().stdout).unwrap();
        assert!(help.contains("xit codes: "), "{help}");
        assert!(help.contains("\nExample: "), "{help}");
    }
}

#[test]
fn a_script_gets_the_reason_as_json() {
    let folder = folder();
    let words = ["--json", "-q", "run", "nosuch", "--kernel", "linux-6.12"];
    let output = numalab(folder.path()).args(words).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["exit-code"], 2);
    assert!(json["error"].as_str().unwrap().contains("nosuch"));
}

const COMMENT_ONLY: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../suites/tests/patches/comment-only.patch"
);

#[test]
fn a_check_of_what_is_no_patch_or_no_kernel_is_wrong_input() {
    let folder = folder();
    let missing = ["check", "nothing.patch", "--base", "linux-6.12"];
    numalab(folder.path())
        .args(missing)
        .assert()
        .code(2)
        .stderr(contains("nothing.patch"));
    numalab(folder.path())
        .args(["check", COMMENT_ONLY, "--base", "linux-6.21"])
        .assert()
        .code(2)
        .stderr(contains("did you mean"));
    numalab(folder.path())
        .args(["check", COMMENT_ONLY])
        .assert()
        .code(2)
        .stderr(contains("--base"));
    numalab(folder.path())
        .args([
            "check",
            COMMENT_ONLY,
            "--base",
            "linux-6.12",
            "--seeds",
            "0",
        ])
        .assert()
        .code(2)
        .stderr(contains("the number of seeds is 1 to 1000"));
}

/// A folder that looks like a kernel's source, with a function of the scheduler and one that
/// no scenario declares.
fn source(folder: &Path) -> String {
    let source = folder.join("source");
    fs::create_dir_all(source.join("kernel/sched")).unwrap();
    for (name, text) in [
        (
            "Makefile",
            "VERSION = 6\nPATCHLEVEL = 12\nSUBLEVEL = 0\nEXTRAVERSION =\n",
        ),
        ("Kconfig", "config NUMA\n\tbool\n"),
        (
            "kernel/sched/fair.c",
            "static void task_numa_work(void *work)\n{\n\tint a = 1;\n\tint b = 2;\n\tint c = 3;\n\
             \tint d = 4;\n}\n",
        ),
        ("kernel/other.c", "void other(void)\n{\n\tint a = 1;\n}\n"),
    ] {
        fs::write(source.join(name), text).unwrap();
    }
    source.to_string_lossy().into_owned()
}

#[test]
fn a_series_that_touches_no_subject_gives_no_answer() {
    let folder = folder();
    let base = source(folder.path());
    let patch = "--- a/kernel/other.c\n+++ b/kernel/other.c\n@@ -2,3 +2,3 @@\n {\n-\tint a = 1;\n\
                 +\tint a = 2;\n }\n";
    let file = folder.path().join("other.patch");
    fs::write(&file, patch).unwrap();
    numalab(folder.path())
        .arg("check")
        .arg(&file)
        .args(["--base", &base, "--touching"])
        .assert()
        .code(3)
        .stderr(contains("the series touches: kernel/other.c (other)"))
        .stderr(contains("task_numa_work"));
}

/// The names in a diff need no `a/`, and its hunks' headers no function.
#[test]
fn touching_finds_the_function_in_the_source() {
    let folder = folder();
    let base = source(folder.path());
    for (file, old, new) in [
        (
            "git.patch",
            "a/kernel/sched/fair.c",
            "b/kernel/sched/fair.c",
        ),
        (
            "noprefix.patch",
            "kernel/sched/fair.c",
            "kernel/sched/fair.c",
        ),
    ] {
        let patch = format!(
            "--- {old}\n+++ {new}\n@@ -4,4 +4,4 @@\n \tint b = 2;\n-\tint c = 3;\n+\tint c = 4;\n \
             \tint d = 4;\n }}\n"
        );
        let file = folder.path().join(file);
        fs::write(&file, patch).unwrap();
        // The source is no kernel, so that it goes no further than to its build.
        numalab(folder.path())
            .arg("check")
            .arg(&file)
            .args(["--base", &base, "--touching"])
            .assert()
            .stderr(contains("no scenario declares").not())
            .stderr(contains("make"));
    }
}

#[test]
fn escape_codes_in_names_of_files_do_not_reach_the_terminal() {
    let folder = folder();
    let odd = "o\u{1b}[31md\u{9b}\u{202e}";
    let kernel = folder.path().join(odd);
    fs::create_dir(&kernel).unwrap();
    fs::write(kernel.join("vmlinux"), "no kernel").unwrap();
    fs::write(kernel.join("x.yaml"), "name: [\n").unwrap();
    let image = format!("{odd}/vmlinux");
    let scenario = format!("{odd}/x.yaml");
    let odd_option = format!("--{odd}");
    let commands: [&[&str]; 7] = [
        &["kernel", "build", &image],
        &["kernel", "build", odd],
        &["--json", "kernel", "build", &image],
        &["kernel", "source", odd],
        &["run", &scenario, "--kernel", "linux-6.12"],
        &["run", odd, "--kernel", "linux-6.12"],
        &["run", &odd_option],
    ];
    for words in commands {
        let output = numalab(folder.path())
            .env_remove("NO_COLOR")
            .args(words)
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(2), "{words:?}: {output:?}");
        for bytes in [&output.stdout, &output.stderr] {
            let text = String::from_utf8_lossy(bytes);
            assert!(
                !text.contains(['\u{1b}', '\u{9b}', '\u{202e}']),
                "{words:?}: {text:?}"
            );
        }
    }
}

#[test]
fn a_named_pipe_as_a_scenario_is_not_waited_for() {
    let folder = folder();
    let pipe = folder.path().join("pipe.yaml");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    assert!(made.unwrap().success());
    numalab(folder.path())
        .args(["run", "pipe.yaml", "--kernel", "linux-6.12"])
        .timeout(std::time::Duration::from_secs(20))
        .assert()
        .code(2)
        .stderr(contains("it is a pipe"));
}
