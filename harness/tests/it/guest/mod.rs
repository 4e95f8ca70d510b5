//! Guests, with a QEMU that misbehaves and with the real one.

mod cached_runs;
mod fake;
mod killed;
mod kvm;
mod saved;
mod tiny;

use std::fs;
use std::path::Path;
use std::time::Duration;

use camino::Utf8PathBuf;
use numalab::guest::argv::{Boot, Start};
use numalab::guest::deadline::{Deadlines, StageLimit};
use numalab::guest::lifecycle::{self, GuestError, GuestEvent, Limits};
use numalab::guest::mode::{Accelerator, Mode, Platform};
use numalab::guest::outcome::Outcome;
use numalab::guest::qemu::Qemu;
use numalab::guest::topology::{Machine, Node};
use numalab_protocol::{Frame, Record, pages};
use tokio_util::sync::CancellationToken;

/// Limits that no test reaches unless it means to.
const PATIENT: StageLimit = StageLimit::new(120, 240, 240);

fn deadlines(limit: StageLimit) -> Deadlines {
    Deadlines {
        monitor: Duration::from_secs(240),
        boot: limit,
        window: limit,
        plan: limit,
        step: limit,
        power_off: limit,
    }
}

/// A folder with a guest's files.
struct Folder {
    folder: tempfile::TempDir,
}

impl Folder {
    fn new() -> Folder {
        let folder = tempfile::tempdir().unwrap();
        for index in 0..pages::COUNT {
            let page = folder.path().join(format!("page.{index}"));
            fs::write(page, [0; pages::PAGE]).unwrap();
        }
        fs::write(folder.path().join("kernel"), "no kernel").unwrap();
        fs::write(folder.path().join("initrd"), "no initramfs").unwrap();
        Folder { folder }
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn file(&self, name: &str) -> Utf8PathBuf {
        Utf8PathBuf::try_from(self.path().join(name)).unwrap()
    }

    fn boot(&self) -> Boot {
        let node = Node {
            cpus: 1,
            memory_mib: 64,
        };
        Boot {
            machine: Machine::new(vec![node], None, vec![]).unwrap(),
            platform: Platform::new(Mode::Exact { shift: 3 }, Accelerator::Tcg).unwrap(),
            kernel: self.file("kernel"),
            initrd: self.file("initrd"),
            pages: std::array::from_fn(|index| self.file(&format!("page.{index}"))),
            console: self.file("console"),
            records: self.file("records"),
            start: Start::Cold,
        }
    }
}

/// What came of a guest, and what was told meanwhile.
struct Ran {
    result: Result<Outcome, GuestError>,
    pid: Option<u32>,
    told: Vec<String>,
}

impl Ran {
    /// The outcome; QEMU must be gone.
    #[track_caller]
    fn outcome(&self) -> &Outcome {
        let pid = self.pid.expect("QEMU was started");
        assert!(!is_alive(pid), "QEMU {pid} outlives its run");
        self.result.as_ref().unwrap()
    }
}

async fn run(qemu: &Qemu, boot: &Boot, limit: StageLimit, limits: Limits) -> Ran {
    let mut pid = None;
    let mut told = Vec::new();
    let on_event = |event: GuestEvent<'_>| match event {
        GuestEvent::Started { pid: started } => pid = Some(started),
        GuestEvent::Record(record) => told.push(format!("record {record:?}")),
        GuestEvent::Stage(stage) => told.push(format!("stage {stage}")),
        GuestEvent::ConsoleFault(console_fault) => {
            told.push(format!("console_fault {}", console_fault.message))
        }
    };
    let cancel = CancellationToken::new();
    let result = lifecycle::run(qemu, boot, &deadlines(limit), &limits, on_event, cancel).await;
    Ran { result, pid, told }
}

fn is_alive(pid: u32) -> bool {
    // A zombie has ended, but nobody has reaped it.
    fs::exists(format!("/proc/{pid}")).unwrap()
}

/// Whether a process has ended, reaped or not: a container's first process may reap nobody.
fn has_ended(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit_once(") ").map_or("", |(_, rest)| rest);
    state.is_empty() || state.starts_with('Z')
}

/// Waits until a process has ended that is not ours to reap.
fn await_death(pid: u32) {
    let mut waited = Duration::ZERO;
    while !has_ended(pid) {
        std::thread::sleep(Duration::from_millis(10));
        waited += Duration::from_millis(10);
        assert!(waited < Duration::from_secs(60), "process {pid} lives on");
    }
}

/// The lines of a guest that does nothing.
fn lines(records: &[Record]) -> String {
    let lines = records.iter().zip(0..).map(|(record, seq)| {
        let record = record.clone();
        Frame { seq, record }.to_line().unwrap()
    });
    lines.collect()
}

fn idle_course() -> Vec<Record> {
    let uptime_ns = 1;
    vec![
        Record::Ready {
            contract: numalab_protocol::CONTRACT,
            release: "tiny".into(),
            uptime_ns,
        },
        Record::Window { uptime_ns },
        Record::End {
            complete: true,
            tainted: 0,
            uptime_ns,
        },
    ]
}
