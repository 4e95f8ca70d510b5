//! Kills at any moment and full disks: what is left is a cache that the next run can use.

use std::process::{Command, Stdio};
use std::thread::sleep;

use predicates::prelude::PredicateBooleanExt as _;
use predicates::str::contains;

use super::cached_runs::Bench;
use super::*;

/// A small file system; `None`, with the reason printed, where that is not allowed.
struct Mount<'a>(&'a Path);

impl<'a> Mount<'a> {
    fn new(path: &'a Path, options: &str) -> Option<Self> {
        fs::create_dir_all(path).unwrap();
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", options, "none"])
            .arg(path)
            .output();
        match mounted {
            Ok(output) if output.status.success() => Some(Self(path)),
            other => {
                eprintln!("not tried: mounting a tmpfs needs root here: {other:?}");
                None
            }
        }
    }
}

impl Drop for Mount<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0).status();
    }
}

/// The next run gives its result, is cached, and leaves nothing half-made.
#[track_caller]
fn is_usable(bench: &Bench, what: &str) {
    bench.run(&[], 0);
    let (_, report) = bench.run(&[], 0);
    assert_eq!(report["started_from"], "cache", "{what}");
    let cached_runs = bench.cached_runs().into_iter();
    let whole = cached_runs.filter(|path| path.join("manifest.json").exists());
    assert_eq!(whole.count(), 1, "{what}");
    // Another run of the same kernel and machine is restored from what was saved.
    let (done, report) = bench.run(&["--fresh"], 0);
    done.stderr(contains("determinism failure").not());
    assert!(
        report["determinism"]["identical"].is_object(),
        "{what}: {report:#}"
    );
}

#[test]
fn a_kill_at_any_moment_leaves_a_usable_cache() {
    let bench = Bench::new();
    for delay in [5, 30, 80, 150, 250, 400, 600, 900, 1400_u64] {
        let command = bench.command(&[]);
        let mut process = Command::new(command.get_program());
        process
            .args(command.get_args())
            .current_dir(bench.folder.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        for (name, value) in command.get_envs() {
            process.env(name, value.unwrap());
        }
        let mut child = process.spawn().unwrap();
        sleep(Duration::from_millis(delay));
        child.kill().unwrap();
        child.wait().unwrap();
        // So that each delay finds the whole way before it.
        for part in ["runs", "snapshots"] {
            let part = bench.folder.path().join("cache").join(part);
            for item in fs::read_dir(part).into_iter().flatten() {
                let path = item.unwrap().path();
                let name = path.file_name().unwrap().to_string_lossy().into_owned();
                if !name.starts_with('.') && !name.contains('.') {
                    fs::remove_dir_all(path).unwrap();
                }
            }
        }
    }
    is_usable(&bench, "killed nine times");
}

#[test]
fn a_qemu_that_is_killed_while_it_saves_leaves_a_usable_cache() {
    let bench = Bench::new();
    let qemu = fs::read_to_string(bench.folder.path().join("qemu")).unwrap();
    let mut cold = 0;
    for delay in ["0.02", "0.1", "0.2", "0.3", "0.5"] {
        let dying = format!(
            "case \"$*\" in *-loadvm*) ;; *-drive*) (sleep {delay}; kill -9 $$) >/dev/null 2>&1 &;; esac\nexec '"
        );
        bench.write("qemu", qemu.replace("exec '", &dying).as_bytes());
        let (_, report) = bench.run(&["--fresh"], 0);
        cold += usize::from(report["started_from"] == "cold");
        let snapshots = bench.folder.path().join("cache/snapshots");
        let _ = fs::remove_dir_all(&snapshots);
        fs::create_dir_all(snapshots).unwrap();
    }
    assert!(cold > 0, "no kill came in time");
    bench.write("qemu", qemu.as_bytes());
    is_usable(&bench, "QEMU killed five times");
}

#[test]
fn a_disk_that_is_full_at_any_stage_changes_no_result() {
    let bench = Bench::new();
    let place = bench.folder.path().join("cache");
    let Some(_mount) = Mount::new(&place, "size=12m") else {
        return;
    };
    // The kernel and the guest image are there; what follows is saved and cached.
    bench.run(&["--cold"], 0);
    let (mut cold, mut unkept) = (0, 0);
    for left in [0, 40, 120, 200, 280, 400, 1000_u64] {
        for part in ["runs", "snapshots"] {
            let _ = fs::remove_dir_all(place.join(part));
            fs::create_dir_all(place.join(part)).unwrap();
        }
        let free = rustix::fs::statvfs(&place).unwrap();
        let free = free.f_bavail * free.f_frsize / 1024;
        let filler = vec![0; usize::try_from(free.saturating_sub(left) * 1024).unwrap()];
        fs::write(place.join("filler"), filler).unwrap();
        let (done, report) = bench.run(&[], 0);
        let said = String::from_utf8_lossy(&done.get_output().stderr).into_owned();
        if report["started_from"] == "cold" {
            cold += 1;
            let told = said.contains("boot cold") || said.contains("boots cold");
            assert!(told, "{left} KiB: {said}");
        }
        if said.contains("results cannot be cached") {
            unkept += 1;
            assert!(
                bench.cached_runs().is_empty(),
                "{left} KiB: {:?}",
                bench.cached_runs()
            );
        }
        fs::remove_file(place.join("filler")).unwrap();
        assert!(
            report.get("determinism").is_none(),
            "{left} KiB: {report:#}"
        );
    }
    assert!(cold >= 2 && unkept >= 1, "{cold} cold, {unkept} not kept");
    is_usable(&bench, "full seven times");
}

fn clear(folder: &Path) {
    for item in fs::read_dir(folder).unwrap() {
        let path = item.unwrap().path();
        let _ = fs::remove_dir_all(&path);
        let _ = fs::remove_file(&path);
    }
}

#[test]
fn a_run_folder_without_room_is_no_finding_and_is_not_cached() {
    let bench = Bench::new();
    let place = bench.folder.path().join("runs");
    let Some(_mount) = Mount::new(&place, "size=16m") else {
        return;
    };
    let report = bench.run_in_place(&["--cold"], 0);
    // The plan comes in the initramfs, which lies in the run's folder.
    let initramfs = Path::new(report["folder"].as_str().unwrap()).join("initramfs.cpio");
    let initramfs = fs::metadata(initramfs).unwrap().len().div_ceil(4096) * 4;
    clear(&place);
    for room in [36, 44, 52, 56, 60, 64_u64] {
        let left = initramfs + room;
        let free = rustix::fs::statvfs(&place).unwrap();
        let free = free.f_bavail * free.f_frsize / 1024;
        let filler = vec![0; usize::try_from(free.saturating_sub(left) * 1024).unwrap()];
        fs::write(place.join("filler"), filler).unwrap();
        let done = bench.command(&["--fresh"]).assert();
        let said = String::from_utf8_lossy(&done.get_output().stderr).into_owned();
        assert!(!said.contains("determinism failure"), "{left} KiB: {said}");
        let code = done.get_output().status.code();
        assert!(matches!(code, Some(0 | 3)), "{left} KiB: {code:?}: {said}");
        clear(&place);
        assert_eq!(bench.cached_runs().len(), 1, "{left} KiB");
    }
    // What was cached before is still used.
    let report = bench.run_in_place(&[], 0);
    assert_eq!(report["started_from"], "cache");
}
