//! Saved guests, with the real QEMU and a kernel that needs no Linux: restored runs give the
//! bytes of cold ones, and whatever goes wrong leaves a usable cache.

use numalab::environment::Environment;
use std::os::unix::fs::PermissionsExt as _;
use std::sync::Arc;

use camino::Utf8Path;
use numalab::guest::mode::AcceleratorChoice;
use numalab::guest::snapshot::{Saved, Snapshot, SnapshotRequest, Snapshots};
use numalab::kernel_id::{KernelId, PlanIn};
use numalab::report::RunReport;
use numalab::run::result::StartedFrom;
use numalab::run::{RunRequest, Runner};
use numalab::scenario::Scenario;
use numalab::timing::Stopwatch;
use numalab::ui::Ui;
use numalab::workspace::Workspace;
use numalab::workspace::project::Project;
use numalab_kernels::cache::Part as CachePart;
use numalab_kernels::{Cache, Catalog};

use super::tiny::{CONSOLE, Last, Part, RECORDS, program};
use super::*;

/// Instructions of the window: a second of host time or two.
const WINDOW: u32 = 150_000_000;

/// Lines of the console in the boot, with trouble, and after the window.
const BOOT: &str =
    "[    0.000001] Linux\n[    0.000002] WARNING: CPU: 0 PID: 0 at a.c:1 b+0x1/0x2\n";
const RUN: &str = "[    9.000000] power down\n";

/// A kernel, a cache, and a QEMU that counts its starts.
struct Bench {
    folder: Folder,
    qemu: Qemu,
    cache: Cache,
}

impl Bench {
    fn new(kernel: &[u8]) -> Bench {
        Bench::with_qemu(kernel, "")
    }

    /// `script` may change the arguments, `arguments`, or end it.
    fn with_qemu(kernel: &[u8], script: &str) -> Bench {
        let folder = Folder::new();
        fs::write(folder.path().join("kernel"), kernel).unwrap();
        let (path, starts) = (folder.path().join("qemu"), folder.file("starts"));
        let real = Qemu::find(&Environment::read()).unwrap();
        let text = format!(
            "#!/usr/bin/env bash\narguments=(\"$@\")\n\
             case \"$*\" in *-fw_cfg*) echo x >>'{starts}';; esac\n\
             {script}\nexec '{}' \"${{arguments[@]}}\"\n",
            real.path().display()
        );
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        let cache = Cache::open(folder.path().join("cache")).unwrap();
        let qemu = Qemu::at(&path).unwrap();
        Bench {
            folder,
            qemu,
            cache,
        }
    }

    fn starts(&self) -> usize {
        let starts = fs::read_to_string(self.folder.path().join("starts"));
        starts.map_or(0, |text| text.lines().count())
    }

    fn snapshots(&self) -> Snapshots {
        Snapshots::new(self.cache.clone())
    }

    async fn get(&self, snapshots: &Snapshots) -> Option<Arc<Saved>> {
        self.get_of(snapshots, "a kernel's digest").await
    }

    async fn get_of(&self, snapshots: &Snapshots, kernel: &str) -> Option<Arc<Saved>> {
        let boot = self.folder.boot();
        let wanted = wanted(&self.qemu, &boot, kernel);
        let cancel = CancellationToken::new();
        let ui = Ui::new(true);
        match snapshots.get(&wanted, &ui, &cancel).await.unwrap() {
            Snapshot::Saved(saved) => Some(saved),
            _ => None,
        }
    }

    /// Names in the cache's part: entries, and what is not cleaned up.
    fn entries(&self) -> Vec<String> {
        let list = fs::read_dir(self.cache.part(CachePart::Snapshots)).unwrap();
        let names = list.map(|item| item.unwrap().file_name().into_string().unwrap());
        names.collect()
    }

    /// Runs a guest and returns its console and records.
    async fn run(&self, start: Start) -> (Ran, [Vec<u8>; 2]) {
        let mut boot = self.folder.boot();
        boot.start = start;
        let ran = run(&self.qemu, &boot, PATIENT, Limits::STANDARD).await;
        let bytes = [&boot.console, &boot.records].map(|path| fs::read(path).unwrap());
        (ran, bytes)
    }

    async fn run_restored(&self, snapshots: &Snapshots, saved: &Arc<Saved>) -> (Ran, [Vec<u8>; 2]) {
        let boot = self.folder.boot();
        let ui = Ui::new(true);
        let copied = snapshots.copy(saved, &boot.console, &boot.records, &ui);
        let copied = copied.await.expect("it can be copied");
        self.run(Start::Restored(copied.disk.clone())).await
    }
}

fn wanted<'a>(qemu: &'a Qemu, boot: &'a Boot, kernel: &'a str) -> SnapshotRequest<'a> {
    SnapshotRequest {
        qemu,
        boot,
        kernel,
        image: "an image's digest",
        title: "a guest",
    }
}

/// A kernel that goes the whole course.
fn whole() -> Vec<u8> {
    let course = lines(&idle_course());
    let (ready, rest) = course.split_once('\n').unwrap();
    let ready = format!("{ready}\n");
    let parts = [
        Part::Say(CONSOLE, BOOT),
        Part::Say(RECORDS, &ready),
        Part::Count(WINDOW),
        Part::Say(RECORDS, rest),
        Part::Say(CONSOLE, RUN),
    ];
    program(&parts, Last::PowerOff)
}

/// One that gets ready and spins for ever.
fn ready() -> Vec<u8> {
    let ready = lines(&idle_course()[..1]);
    program(&[Part::Say(RECORDS, &ready)], Last::Spin)
}

#[tokio::test]
async fn restored_guests_give_the_bytes_of_a_cold_one() {
    let bench = Bench::new(&whole());
    let (cold, cold_bytes) = bench.run(Start::Cold).await;
    assert!(cold.outcome().is_whole(), "{}", cold.outcome().end);
    let snapshots = bench.snapshots();
    let saved = bench.get(&snapshots).await.expect("it is saved");
    for _ in 0..2 {
        let (restored, bytes) = bench.run_restored(&snapshots, &saved).await;
        assert!(restored.outcome().is_whole(), "{}", restored.outcome().end);
        assert_eq!(bytes, cold_bytes);
        // What each file tells comes in its order; which of the two files was looked at first
        // is the host's doing.
        let of_each_file = |told: &[String]| -> (Vec<String>, Vec<String>) {
            told.iter()
                .cloned()
                .partition(|told| told.starts_with("console_fault"))
        };
        assert_eq!(of_each_file(&restored.told), of_each_file(&cold.told));
        // The boot's trouble is every run's.
        assert_eq!(
            restored.outcome().console_faults,
            cold.outcome().console_faults
        );
        assert_eq!(restored.outcome().console_faults.len(), 1);
    }
    // One cold run, one boot, two restored runs; and no copy of a drive is left.
    assert_eq!(bench.starts(), 4);
    assert_eq!(bench.entries(), [saved.key().to_string()]);
    assert!(bench.get(&bench.snapshots()).await.is_some());
    assert_eq!(bench.starts(), 4);
}

#[tokio::test]
async fn a_damaged_or_foreign_one_is_made_anew() {
    let bench = Bench::new(&ready());
    let saved = bench.get(&bench.snapshots()).await.unwrap();
    let folder = saved.folder().to_owned();
    let (disk, manifest) = (folder.join("guest.qcow2"), folder.join("manifest.json"));
    drop(saved);
    let other = bench
        .get_of(&bench.snapshots(), "another kernel's")
        .await
        .unwrap();
    let foreign = other.folder().join("manifest.json");
    let mut starts = bench.starts();
    let damages: [(&str, &dyn Fn()); 6] = [
        ("truncated", &|| {
            let file = fs::File::options().write(true).open(&disk).unwrap();
            file.set_len(100_000).unwrap();
        }),
        ("flipped", &|| {
            let mut bytes = fs::read(&disk).unwrap();
            let middle = bytes.len() / 2;
            bytes[middle] ^= 1;
            fs::write(&disk, bytes).unwrap();
        }),
        ("without its drive", &|| fs::remove_file(&disk).unwrap()),
        ("without a manifest", &|| {
            fs::remove_file(&manifest).unwrap()
        }),
        ("foreign", &|| {
            fs::copy(&foreign, &manifest).unwrap();
        }),
        ("without a lock", &|| {
            fs::remove_file(folder.join("lock")).unwrap()
        }),
    ];
    for (name, damage) in damages {
        damage();
        assert!(bench.get(&bench.snapshots()).await.is_some(), "{name}");
        starts += 1;
        assert_eq!(bench.starts(), starts, "{name}");
        assert!(bench.get(&bench.snapshots()).await.is_some(), "{name}");
        assert_eq!(bench.starts(), starts, "{name}: it is whole again");
        assert_eq!(bench.entries().len(), 2, "{name}");
    }
}

#[tokio::test]
async fn those_who_want_one_guest_boot_it_once() {
    let bench = Bench::new(&ready());
    // Two processes would meet in the cache as these two do.
    let (one, other) = (bench.snapshots(), bench.snapshots());
    let saved = tokio::join!(bench.get(&one), bench.get(&one), bench.get(&other));
    assert!(saved.0.is_some() && saved.1.is_some() && saved.2.is_some());
    assert_eq!(bench.starts(), 1);
    assert_eq!(bench.entries().len(), 1);
}

#[tokio::test]
async fn a_missed_window_is_tried_again_and_then_given_up() {
    let course = lines(&idle_course()[..2]);
    let bench = Bench::new(&program(&[Part::Say(RECORDS, &course)], Last::Spin));
    assert!(bench.get(&bench.snapshots()).await.is_none());
    assert_eq!(bench.starts(), 4);
    assert!(bench.entries().is_empty(), "{:?}", bench.entries());
}

#[tokio::test]
async fn a_guest_that_does_not_get_ready_is_not_saved() {
    let bench = Bench::new(&program(&[], Last::Panic));
    let snapshots = bench.snapshots();
    assert!(bench.get(&snapshots).await.is_none());
    assert!(bench.get(&snapshots).await.is_none());
    assert_eq!(bench.starts(), 1, "it is not tried again");
    drop(snapshots);
    assert!(bench.entries().is_empty(), "{:?}", bench.entries());
}

#[tokio::test]
async fn a_qemu_that_cannot_save_is_not_asked_twice() {
    let without = "kept=(); while (($#)); do [ \"$1\" = -drive ] && shift 2 || \
                   { kept+=(\"$1\"); shift; }; done; arguments=(\"${kept[@]}\")";
    let bench = Bench::with_qemu(&ready(), without);
    let snapshots = bench.snapshots();
    assert!(bench.get(&snapshots).await.is_none());
    assert!(bench.get_of(&snapshots, "another kernel's").await.is_none());
    assert_eq!(bench.starts(), 1);
    assert!(bench.entries().is_empty(), "{:?}", bench.entries());
}

#[tokio::test]
async fn a_boot_that_is_given_up_leaves_nothing() {
    let bench = Bench::new(&program(&[], Last::Spin));
    let snapshots = bench.snapshots();
    let (boot, ui, cancel) = (bench.folder.boot(), Ui::new(true), CancellationToken::new());
    let wanted = wanted(&bench.qemu, &boot, "a kernel's digest");
    let interrupted = async {
        while bench.starts() == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        cancel.cancel();
    };
    let (got, ()) = tokio::join!(snapshots.get(&wanted, &ui, &cancel), interrupted);
    assert_eq!(got.unwrap_err().to_string(), "interrupted");
    assert!(bench.entries().is_empty(), "{:?}", bench.entries());
    // It was the run's end, and is none of the guest's.
    fs::write(bench.folder.path().join("kernel"), ready()).unwrap();
    assert!(bench.get(&snapshots).await.is_some());
}

#[test]
fn the_key_is_what_the_guest_can_see() {
    let folder = Folder::new();
    let qemu = Qemu::find(&Environment::read()).unwrap();
    let boot = folder.boot();
    let key = |boot: &Boot, kernel: &str| wanted(&qemu, boot, kernel).key();
    let first = key(&boot, "a");
    let elsewhere = Boot {
        kernel: "/elsewhere".into(),
        console: "/elsewhere".into(),
        pages: std::array::from_fn(|_| "/elsewhere".into()),
        ..boot.clone()
    };
    assert_eq!(key(&elsewhere, "a"), first);
    assert_ne!(key(&boot, "b"), first);
    let mut shifted = boot.clone();
    shifted.platform = Platform::new(Mode::Exact { shift: 4 }, Accelerator::Tcg).unwrap();
    assert_ne!(key(&shifted, "a"), first);
    let mut parameters = boot.clone();
    let nodes = boot.machine.nodes().to_vec();
    parameters.machine = Machine::new(nodes, None, vec!["nohz=off".into()]).unwrap();
    assert_ne!(key(&parameters, "a"), first);
}

/// Runs a scenario on the bench's kernel, as a command would.
async fn run_scenario(bench: &Bench, runs: &Path, cold: bool) -> RunReport {
    for (name, value) in [
        ("NUMALAB_QEMU", bench.folder.path().join("qemu")),
        ("NUMALAB_RUNS", runs.to_owned()),
    ] {
        #[expect(unsafe_code, reason = "the environment is how the QEMU is chosen")]
        // SAFETY: the test runner gives each test a process of its own, and no other thread
        // of this one reads the environment now.
        unsafe {
            std::env::set_var(name, value);
        }
    }
    let project = Utf8Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let environment = Environment {
        root: Some(project.to_owned()),
        ..Environment::read()
    };
    let project = Project::find(&environment).unwrap();
    let workspace = Workspace {
        catalog: Catalog::load(project.kernels().as_std_path()).unwrap(),
        project,
        cache: bench.cache.clone(),
        stopwatch: Stopwatch::default(),
        environment,
    };
    // An image from outside would boot cold anyway; this one may be saved.
    let kernel = KernelId {
        name: "tiny".into(),
        word: "tiny".into(),
        release: "unknown".into(),
        source: None,
        digest: "tiny".into(),
        path: bench.folder.file("kernel"),
        stored: jiff::Timestamp::UNIX_EPOCH,
        initramfs: None,
        plan_in: PlanIn::FwCfg,
        moved: Vec::new(),
        always_cold: false,
    };
    let text = "summary: mine\nmachine: { nodes: 1 }\ntasks: { t: { cpus: \"0\" } }\n\
                steps: [ { run: [ { task: t, touch: 1MiB, for: 1ms } ] } ]\n\
                expect: [ { fact: nodes, equals: 1, because: one was asked for } ]\n";
    let scenario = Scenario::parse("own/mine.yaml".into(), text).unwrap();
    let request = RunRequest::new(&scenario, &kernel, 1, None, &[]).unwrap();
    let (ui, cancel) = (Ui::new(true), CancellationToken::new());
    let runner = Runner::check(&workspace, false, AcceleratorChoice::Auto)
        .unwrap()
        .cold(cold)
        .ready(&kernel, &ui, &cancel)
        .await
        .unwrap();
    runner.run(&request, &ui, &cancel).await.unwrap()
}

#[tokio::test]
async fn a_saved_guest_that_qemu_does_not_load_is_replaced_by_a_cold_one() {
    let refuse = "case \"$*\" in *-loadvm*) echo 'qemu: no such state' >&2; exit 1;; esac";
    let bench = Bench::with_qemu(&whole(), refuse);
    let runs = tempfile::tempdir().unwrap();
    for (cold, starts) in [(false, 3), (true, 4)] {
        let report = run_scenario(&bench, runs.path(), cold).await;
        assert_eq!(report.started_from, StartedFrom::Cold);
        let records = fs::read_to_string(report.folder.join("records.jsonl")).unwrap();
        assert_eq!(records, lines(&idle_course()));
        assert!(bench.entries().is_empty(), "{:?}", bench.entries());
        // Booted to be saved, refused, and cold in its place; then cold at once.
        assert_eq!(bench.starts(), starts);
    }
}

#[tokio::test]
async fn a_kernel_that_does_not_boot_is_booted_once() {
    let panic = "[    0.000001] Kernel panic - not syncing: no memory\n";
    let bench = Bench::new(&program(&[Part::Say(CONSOLE, panic)], Last::Panic));
    let runs = tempfile::tempdir().unwrap();
    let report = run_scenario(&bench, runs.path(), false).await;
    assert_eq!(bench.starts(), 1, "the boot that was to be saved");
    assert_eq!(report.started_from, StartedFrom::Cold);
    assert!(
        report.ending.contains("panicked, in stage boot"),
        "{}",
        report.ending
    );
    assert_eq!(report.console_tail, [panic.trim_end()]);
    let fault = report.judgement.fault_summary.unwrap();
    assert!(
        fault.certain && fault.what.contains("no memory"),
        "{}",
        fault.what
    );
    assert!(bench.entries().is_empty(), "{:?}", bench.entries());
}
