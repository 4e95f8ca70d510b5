//! Cached results, with the real QEMU and a kernel that needs no Linux: an identical run is
//! not repeated, and a cache entry that is damaged or contradicted is never used.

use numalab::environment::Environment;
use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use assert_cmd::Command;
use numalab_kernels::Digest;
use predicates::prelude::PredicateBooleanExt as _;
use predicates::str::contains;
use serde_json::Value;

use super::tiny::{CONSOLE, Last, Part, RECORDS, program};
use super::*;

/// Instructions of the window, in which the guest is saved; where a busy host misses it, the
/// guest boots cold, which is as good here.
const WINDOW: u32 = 20_000_000;

/// A kernel that tells of one node and one step, whatever its plan is.
fn kernel(nodes: i64, console: &str, end: &Record) -> Vec<u8> {
    let uptime_ns = 1;
    let mut course = idle_course();
    course.pop();
    course.extend([
        Record::Start {
            seed: 1,
            facts: BTreeMap::from([("nodes".to_owned(), nodes)]),
            uptime_ns,
        },
        Record::Step {
            index: 0,
            uptime_ns,
        },
        Record::StepEnd {
            index: 0,
            uptime_ns,
        },
        end.clone(),
    ]);
    let course = lines(&course);
    let (ready, rest) = course.split_once('\n').unwrap();
    let ready = format!("{ready}\n");
    let parts = [
        Part::Say(CONSOLE, console),
        Part::Say(RECORDS, &ready),
        Part::Count(WINDOW),
        Part::Say(RECORDS, rest),
    ];
    program(&parts, Last::PowerOff)
}

fn good_end() -> Record {
    Record::End {
        complete: true,
        tainted: 0,
        uptime_ns: 1,
    }
}

const CLEAN: &str = "[    0.000001] Linux\n";

pub(super) struct Bench {
    pub(super) folder: tempfile::TempDir,
}

impl Bench {
    /// A QEMU that counts its starts, but for those of guests that are booted to be saved,
    /// and that boots the file `other` in place of the kernel while there is one.
    pub(super) fn new() -> Bench {
        let bench = Bench {
            folder: tempfile::tempdir().unwrap(),
        };
        bench.write("kernel", &kernel(1, CLEAN, &good_end()));
        bench.scenario("touch: 1MiB, for: 1ms", 1);
        let real = Qemu::find(&Environment::read()).unwrap();
        let folder = bench.folder.path().display();
        let text = format!(
            "#!/usr/bin/env bash\narguments=(\"$@\")\n\
             case \"$*\" in *-fw_cfg*) echo x >>'{folder}/starts';; esac\n\
             if [ -e '{folder}/other' ]; then arguments=(\"${{arguments[@]/%*\\/vmlinux/{folder}/other}}\"); fi\n\
             exec '{}' \"${{arguments[@]}}\"\n",
            real.path().display()
        );
        bench.write("qemu", text.as_bytes());
        let path = bench.folder.path().join("qemu");
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
        bench
    }

    pub(super) fn write(&self, name: &str, bytes: &[u8]) {
        fs::write(self.folder.path().join(name), bytes).unwrap();
    }

    fn scenario(&self, action: &str, nodes: i64) {
        fs::create_dir_all(self.folder.path().join("own")).unwrap();
        let text = format!(
            "summary: mine\nmachine: {{ nodes: 1 }}\ntasks: {{ t: {{ cpus: \"0\" }} }}\n\
             steps: [ {{ run: [ {{ task: t, {action} }} ] }} ]\n\
             expect: [ {{ fact: nodes, equals: {nodes}, because: so many were asked for }} ]\n"
        );
        self.write("own/mine.yaml", text.as_bytes());
    }

    /// Starts since the last time.
    pub(super) fn starts(&self) -> usize {
        let path = self.folder.path().join("starts");
        let text = fs::read_to_string(&path).unwrap_or_default();
        let _ = fs::remove_file(path);
        text.lines().count()
    }

    pub(super) fn command(&self, arguments: &[&str]) -> Command {
        let folder = self.folder.path();
        let mut command = Command::cargo_bin("numalab").unwrap();
        command
            .env("NUMALAB_CACHE", folder.join("cache"))
            .env("NUMALAB_RUNS", folder.join("runs"))
            .env("NUMALAB_QEMU", folder.join("qemu"))
            .env("NUMALAB_PROVE_AGAIN", "0")
            .current_dir(folder)
            .args(["run", "own/mine.yaml", "--kernel"])
            .arg(folder.join("kernel"))
            .args(arguments);
        command
    }

    /// Runs the scenario; what was printed, and the report.
    pub(super) fn run(&self, arguments: &[&str], code: i32) -> (assert_cmd::assert::Assert, Value) {
        let _ = fs::remove_dir_all(self.folder.path().join("runs"));
        let done = self.command(arguments).assert().code(code);
        (done, self.report())
    }

    /// Runs the scenario; the report. The folder for runs stays.
    pub(super) fn run_in_place(&self, arguments: &[&str], code: i32) -> Value {
        self.command(arguments).assert().code(code);
        self.report()
    }

    pub(super) fn report(&self) -> Value {
        let mut runs = fs::read_dir(self.folder.path().join("runs")).unwrap();
        let folder = runs.next().unwrap().unwrap().path();
        serde_json::from_slice(&fs::read(folder.join("report.json")).unwrap()).unwrap()
    }

    /// Names of what is cached, without what is cleaned up later.
    pub(super) fn cached_runs(&self) -> Vec<PathBuf> {
        let list = fs::read_dir(self.folder.path().join("cache/runs")).unwrap();
        let mut paths: Vec<PathBuf> = list.map(|item| item.unwrap().path()).collect();
        paths.sort();
        paths
    }
}

#[test]
fn an_identical_run_is_cached_and_judged_anew() {
    let bench = Bench::new();
    let (_, first) = bench.run(&["--cold"], 0);
    assert_eq!(first["started_from"], "cold");
    assert!(first.get("cached").is_none());
    assert_eq!(bench.starts(), 1);
    let records = |report: &Value| {
        let folder = PathBuf::from(report["folder"].as_str().unwrap());
        ["records.jsonl", "console.log"].map(|name| fs::read(folder.join(name)).unwrap())
    };
    let bytes = records(&first);

    let (done, second) = bench.run(&[], 0);
    done.stdout(contains("pass, cached").and(contains("1 of 1 results")))
        .stderr(contains(" (cached 2"));
    assert_eq!(second["started_from"], "cache");
    assert_eq!(second["cached"]["started_from"], "cold");
    assert_eq!(second["cached"]["folder"], first["folder"]);
    assert_eq!(records(&second), bytes);
    assert_eq!(second["judgement"], first["judgement"]);
    assert_eq!(second["facts"], first["facts"]);
    assert_eq!(bench.starts(), 0, "nothing was run");

    // Only what is expected changes: judged anew, without a guest.
    bench.scenario("touch: 1MiB, for: 1ms", 2);
    let (done, third) = bench.run(&[], 1);
    done.stdout(contains("fail, cached").and(contains("nodes is 1, wanted = 2")));
    assert_eq!(third["started_from"], "cache");
    assert_eq!(bench.starts(), 0);

    // Another plan, seed, parameter or shift is another run.
    let another: [(&str, &[&str], i32); 3] = [
        ("touch: 1MiB, for: 2ms", &[], 0),
        ("touch: 1MiB, for: 1ms", &["--append", "nohz=off"], 0),
        ("touch: 1MiB, for: 1ms", &["--shift", "4"], 0),
    ];
    for (action, arguments, code) in another {
        bench.scenario(action, 1);
        let (_, report) = bench.run(arguments, code);
        assert_ne!(report["started_from"], "cache", "{action} {arguments:?}");
        assert!(bench.starts() > 0, "{action} {arguments:?}");
    }
    // The tiny kernel says that it ran seed 1: such records are nobody's proof of seed 2.
    let (_, report) = bench.run(&["--seed", "2"], 3);
    assert_ne!(report["started_from"], "cache");
    assert_eq!(bench.cached_runs().len(), 5);
}

#[test]
fn fresh_runs_are_compared_with_the_cached_ones() {
    let bench = Bench::new();
    bench.run(&["--cold"], 0);
    let (done, same) = bench.run(&["--fresh"], 0);
    done.stderr(contains("determinism failure").not());
    assert_ne!(same["started_from"], "cache");
    assert!(
        same["determinism"]["identical"]["at"].is_string(),
        "{same:#}"
    );
    assert_eq!(
        bench.starts(),
        2,
        "the cold run's guest, and one of its own"
    );

    // A kernel that behaves otherwise under one digest: what must never happen.
    bench.write("other", &kernel(2, CLEAN, &good_end()));
    let (done, report) = bench.run(&["--cold"], 3);
    done.stderr(contains("determinism failure: ").and(contains("record 3 is the first")))
        .stdout(contains("determinism failure: 1 of 1 repeated results"));
    let check = &report["determinism"]["different"];
    assert_eq!(check["now"], report["folder"]);
    let then = PathBuf::from(check["then"].as_str().unwrap());
    let [cached, other] = &bench.cached_runs()[..] else {
        panic!("{:?}", bench.cached_runs());
    };
    assert_eq!(cached, &then);
    assert!(other.to_str().unwrap().ends_with(".differs"), "{other:?}");
    let nodes = |folder: &Path| fs::read_to_string(folder.join("records.jsonl")).unwrap();
    assert!(nodes(cached).contains("\"nodes\":1"), "it is as it was");
    assert!(nodes(other).contains("\"nodes\":2"));

    // It is not forgotten by itself, whichever of the two comes next.
    fs::remove_file(bench.folder.path().join("other")).unwrap();
    for arguments in [&[][..], &["--fresh"]] {
        bench.starts();
        let (done, report) = bench.run(arguments, 3);
        done.stderr(contains(
            "earlier runs of the same inputs gave different records",
        ));
        assert_ne!(report["started_from"], "cache");
        assert!(bench.starts() > 0);
    }
    for place in bench.cached_runs() {
        fs::remove_dir_all(place).unwrap();
    }
    bench.run(&[], 0);
    let (_, report) = bench.run(&[], 0);
    assert_eq!(report["started_from"], "cache");
}

#[test]
fn a_console_that_differs_is_a_determinism_failure_too() {
    let bench = Bench::new();
    bench.run(&["--cold"], 0);
    let said = "[    0.000001] Linux!\n";
    bench.write("other", &kernel(1, said, &good_end()));
    let (done, _) = bench.run(&["--cold"], 3);
    done.stderr(contains("console.log: record 1 is the first"));
}

#[test]
fn a_run_folder_that_is_not_writable_is_found_before_anything_is_made() {
    let bench = Bench::new();
    bench.write("runs", b"a file");
    let done = bench.command(&[]).assert().code(3);
    done.stderr(contains("there is a file in place of a folder"));
    assert_eq!(bench.starts(), 0);
    let kernels = bench.folder.path().join("cache/kernels");
    let made = fs::read_dir(kernels).map_or(0, Iterator::count);
    assert_eq!(made, 0, "no kernel was prepared");
}

#[test]
fn a_share_is_run_again() {
    let bench = Bench::new();
    bench.run(&["--cold"], 0);
    bench.starts();
    let again = |variable: &str, value: &str| {
        let _ = fs::remove_dir_all(bench.folder.path().join("runs"));
        let mut command = bench.command(&[]);
        command.env(variable, value);
        let done = command.assert();
        (
            done,
            bench.report()["started_from"].as_str().unwrap().to_owned(),
        )
    };
    let (done, started_from) = again("NUMALAB_PROVE_AGAIN", "1");
    done.code(0).stderr(contains("is cached and run again"));
    assert_ne!(started_from, "cache");
    assert!(bench.starts() > 0);
    let (done, started_from) = again("NUMALAB_PROVE_AGAIN", "0");
    done.code(0);
    assert_eq!(started_from, "cache");
    let mut command = bench.command(&[]);
    command
        .env("NUMALAB_PROVE_AGAIN", "often")
        .assert()
        .code(2)
        .stderr(contains("NUMALAB_PROVE_AGAIN is \"often\""));
}

#[test]
fn a_damaged_or_foreign_one_is_not_used() {
    let bench = Bench::new();
    bench.run(&["--cold"], 0);
    bench.run(&["--cold", "--append", "nohz=off"], 0);
    let cached_runs = bench.cached_runs();
    bench.run(&[], 0);
    // Which of the two is that of the plain run is told by its manifest.
    let manifest = |place: &Path| fs::read_to_string(place.join("manifest.json")).unwrap();
    let [plain, other] = match manifest(&cached_runs[0]).contains("nohz=off") {
        true => [&cached_runs[1], &cached_runs[0]],
        false => [&cached_runs[0], &cached_runs[1]],
    };
    let damages: [(&str, &dyn Fn()); 7] = [
        ("records.jsonl has", &|| {
            let path = plain.join("records.jsonl");
            let bytes = fs::read(&path).unwrap();
            fs::write(&path, &bytes[..bytes.len() - 5]).unwrap();
        }),
        ("records.jsonl does not have the digest", &|| {
            let path = plain.join("records.jsonl");
            let text = fs::read_to_string(&path).unwrap();
            fs::write(&path, text.replace("\"nodes\":1", "\"nodes\":2")).unwrap();
        }),
        ("is not whole: ", &|| {
            let [path, list] = ["records.jsonl", "manifest.json"].map(|name| plain.join(name));
            let digest = || Digest::of_file(&path).unwrap().to_string();
            let text = fs::read_to_string(&path).unwrap();
            let before = digest();
            fs::write(&path, text.replace("\"nodes\":1", "\"nodes\":2")).unwrap();
            fs::write(&list, manifest(plain).replace(&before, &digest())).unwrap();
        }),
        ("console.log: ", &|| {
            fs::remove_file(plain.join("console.log")).unwrap();
        }),
        ("manifest.json: ", &|| {
            fs::write(plain.join("manifest.json"), "{}").unwrap();
        }),
        ("manifest.json is that of", &|| {
            fs::copy(other.join("manifest.json"), plain.join("manifest.json")).unwrap();
        }),
        ("it has no lock file", &|| {
            fs::remove_file(plain.join("lock")).unwrap();
        }),
    ];
    for (what, damage) in damages {
        damage();
        bench.starts();
        let (done, report) = bench.run(&[], 0);
        done.stderr(contains("is damaged and not used").and(contains(what)));
        assert_ne!(report["started_from"], "cache", "{what}");
        assert!(bench.starts() > 0, "{what}");
        let (_, report) = bench.run(&[], 0);
        assert_eq!(report["started_from"], "cache", "{what}: it is whole again");
        assert_eq!(bench.cached_runs(), cached_runs, "{what}");
    }
}

#[test]
fn what_could_be_the_hosts_doing_is_not_cached() {
    let cut = Record::End {
        complete: false,
        tainted: 0,
        uptime_ns: 1,
    };
    let bench = Bench::new();
    bench.write("kernel", &kernel(1, CLEAN, &cut));
    bench.run(&["--cold"], 3);
    assert_eq!(bench.cached_runs(), [] as [PathBuf; 0]);
    // A QEMU that is killed in the middle.
    bench.write("kernel", &kernel(1, CLEAN, &good_end()));
    let qemu = fs::read_to_string(bench.folder.path().join("qemu")).unwrap();
    let killed = qemu.replace(
        "exec '",
        "case \"$*\" in *-fw_cfg*) kill -9 $$;; esac\nexec '",
    );
    bench.write("qemu", killed.as_bytes());
    bench.run(&["--cold"], 3);
    assert_eq!(bench.cached_runs(), [] as [PathBuf; 0]);
    // What the kernel itself did is: a warning, in a run that came to its end.
    bench.write("qemu", qemu.as_bytes());
    let warning = "[    0.000002] WARNING: CPU: 0 PID: 0 at a.c:1 b+0x1/0x2\n";
    bench.write("kernel", &kernel(1, warning, &good_end()));
    bench.run(&["--cold"], 3);
    let (done, report) = bench.run(&[], 3);
    done.stdout(contains("inconclusive, cached").and(contains("WARNING: CPU: 0")));
    assert_eq!(report["started_from"], "cache");
}

#[test]
fn two_processes_that_want_the_same_run_it_once() {
    let bench = Bench::new();
    let children: Vec<_> = (0..3)
        .map(|_| {
            let command = bench.command(&[]);
            let mut process = std::process::Command::new(command.get_program());
            process
                .args(command.get_args())
                .current_dir(bench.folder.path());
            for (name, value) in command.get_envs() {
                process.env(name, value.unwrap());
            }
            process.stdout(std::process::Stdio::null()).spawn().unwrap()
        })
        .collect();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    let mut lives = Vec::new();
    for run in fs::read_dir(bench.folder.path().join("runs")).unwrap() {
        let report = fs::read(run.unwrap().path().join("report.json")).unwrap();
        let report: Value = serde_json::from_slice(&report).unwrap();
        lives.push(report["started_from"].as_str().unwrap().to_owned());
    }
    assert_eq!(lives.len(), 3);
    let ran = lives.iter().filter(|life| *life != "cache");
    assert_eq!(ran.count(), 1, "{lives:?}");
    assert_eq!(bench.cached_runs().len(), 1);
}

#[test]
fn a_budget_runs_what_fits_and_names_the_rest() {
    let bench = Bench::new();
    let long = fs::read_to_string(bench.folder.path().join("own/mine.yaml")).unwrap();
    let long = long.replace("for: 1ms", "for: 60s");
    bench.write("own/long.yaml", long.as_bytes());
    let run = |arguments: &[&str]| {
        let _ = fs::remove_dir_all(bench.folder.path().join("runs"));
        let mut command = bench.command(&["--json", "own/long.yaml"]);
        let output = command.args(arguments).output().unwrap();
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        (output, report)
    };
    let (output, report) = run(&["--budget", "5"]);
    assert_eq!(output.status.code(), Some(0), "{report:#}");
    assert_eq!(report["runs"].as_array().unwrap().len(), 1);
    assert_eq!(report["left_out"][0]["scenario"], "own/long");
    assert_eq!(report["left_out"][0]["basis"], "guessed");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("budget 5 s: 1 of 2 scenarios"), "{said}");
    assert!(said.contains("not judged: own/long (18."), "{said}");
    let time = &report["time"];
    let parts = ["build_ms", "guests_ms", "boot_ms", "overhead_ms"];
    let sum: u64 = parts.iter().map(|part| time[part].as_u64().unwrap()).sum();
    let total = time["total_ms"].as_u64().unwrap();
    assert!(sum <= total && sum + 5 > total, "{time:#}");
    assert!(time["guests_ms"].as_u64().unwrap() > 0, "{time:#}");

    // Now it is known that it takes no 18 seconds; and what is cached takes none.
    bench.run(&["own/long.yaml"], 0);
    let (_, report) = run(&["--budget", "1"]);
    assert_eq!(report["runs"].as_array().unwrap().len(), 2);
    assert_eq!(report["time"]["guests_ms"], 0);
    // Nothing fits: no answer, and the shortest is named.
    bench.write("own/mine.yaml", long.replace("60s", "61s").as_bytes());
    bench.write("own/long.yaml", long.replace("60s", "62s").as_bytes());
    let (output, report) = run(&["--budget", "5"]);
    assert_eq!(output.status.code(), Some(3));
    let error = report["error"].as_str().unwrap();
    assert!(error.contains("the shortest is own/mine (19."), "{error}");
}

#[test]
fn files_of_one_name_are_told_apart_and_repeated_from_anywhere() {
    let bench = Bench::new();
    let text = fs::read_to_string(bench.folder.path().join("own/mine.yaml")).unwrap();
    fs::create_dir_all(bench.folder.path().join("else/own")).unwrap();
    // The one passes, the other fails: neither may speak for both.
    let fails = text.replace("equals: 1", "equals: 2");
    bench.write("else/own/mine.yaml", fails.as_bytes());
    let mut command = bench.command(&["else/own/mine.yaml"]);
    let output = command.output().unwrap();
    let shown = String::from_utf8_lossy(&output.stdout).into_owned();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{shown}{said}");
    assert!(shown.contains(" own/mine  "), "{shown}");
    assert!(shown.contains("else/own/mine on kernel"), "{shown}");
    let repeat = shown
        .lines()
        .find_map(|line| line.trim().strip_prefix("repeat: "));
    let words: Vec<String> = shell_words::split(repeat.unwrap()).unwrap();
    // From another folder it is the same run.
    let elsewhere = tempfile::tempdir().unwrap();
    let again = bench.command(&[]);
    let mut process = std::process::Command::new(again.get_program());
    for (name, value) in again.get_envs() {
        process.env(name, value.unwrap());
    }
    process.current_dir(elsewhere.path()).args(&words[1..]);
    let output = process.output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let shown = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(shown.contains("fail, cached"), "{shown}");
}
