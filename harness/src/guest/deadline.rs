//! Deadlines: how long each stage of a guest may take.
//!
//! A guest is judged by its progress. Time is QEMU's own CPU time, which a busy host does
//! not use up; wall time is only a backstop, and its expiry says nothing about the kernel.
//! No clock is read here: the times come in.

use std::fmt;
use std::time::{Duration, Instant};

use numalab_protocol::Record;

/// Where a guest is on its course.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum GuestStage {
    /// Until the agent is ready.
    Boot,
    /// Until the window for a snapshot has closed.
    Window,
    /// Until the plan is taken and everything is set up for it.
    Plan,
    /// Until the end of the step with this index.
    Step(usize),
    /// Until the machine is off.
    PowerOff,
}

/// How long one stage may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StageLimit {
    /// CPU time of QEMU without a new byte from the guest.
    pub silent: Duration,
    /// CPU time of QEMU in the stage, however much the guest says.
    pub total: Duration,
    /// Wall time without a new byte from the guest.
    pub wall: Duration,
}

/// The limits of all stages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deadlines {
    /// Wall time from QEMU's start to its first word on its monitor.
    pub monitor: Duration,
    /// Of [`GuestStage::Boot`].
    pub boot: StageLimit,
    /// Of [`GuestStage::Window`].
    pub window: StageLimit,
    /// Of [`GuestStage::Plan`].
    pub plan: StageLimit,
    /// Of each [`GuestStage::Step`].
    pub step: StageLimit,
    /// Of [`GuestStage::PowerOff`].
    pub power_off: StageLimit,
}

/// What ran out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Waited {
    /// [`StageLimit::silent`]: the guest worked and said nothing.
    Silent {
        /// CPU time without a word.
        cpu: Duration,
    },
    /// [`StageLimit::total`]: the guest worked and talked and came to no end.
    Total {
        /// CPU time of the stage.
        cpu: Duration,
    },
    /// [`StageLimit::wall`]. The host may have been too busy, so this is no finding about
    /// the kernel.
    Wall {
        /// Wall time without a word.
        wall: Duration,
        /// CPU time that QEMU got in it.
        cpu: Duration,
    },
}

impl Deadlines {
    /// Limits for lean and for debug kernels. A lean kernel boots within 2 seconds of CPU
    /// time in exact mode, and a scenario's step takes some seconds.
    ///
    /// A stage's wall time is shorter than the time that a test runner allows for a whole
    /// test (`.config/nextest.toml`), so that our own deadline comes first and keeps the
    /// evidence; a test holds both against each other.
    pub const STANDARD: Deadlines = Deadlines {
        // QEMU takes about a tenth of a second, and some seconds on a busy host.
        monitor: Duration::from_secs(60),
        boot: StageLimit::new(60, 300, 600),
        // One second of guest time is at most 10^9 instructions, about 15 seconds.
        window: StageLimit::new(60, 120, 600),
        plan: StageLimit::new(60, 300, 600),
        // On top of a multiple of what the plan asks for (`estimate`).
        step: StageLimit::new(150, 600, 600),
        power_off: StageLimit::new(60, 120, 600),
    };

    /// The limit of a stage.
    pub fn of(&self, stage: GuestStage) -> StageLimit {
        match stage {
            GuestStage::Boot => self.boot,
            GuestStage::Window => self.window,
            GuestStage::Plan => self.plan,
            GuestStage::Step(_) => self.step,
            GuestStage::PowerOff => self.power_off,
        }
    }
}

impl StageLimit {
    /// A limit in seconds.
    pub const fn new(silent: u64, total: u64, wall: u64) -> StageLimit {
        StageLimit {
            silent: Duration::from_secs(silent),
            total: Duration::from_secs(total),
            wall: Duration::from_secs(wall),
        }
    }
}

impl GuestStage {
    /// The stage that a record leads into; `None` if it changes nothing.
    pub fn after(record: &Record) -> Option<GuestStage> {
        match record {
            Record::Ready { .. } => Some(GuestStage::Window),
            Record::Window { .. } => Some(GuestStage::Plan),
            Record::Start { .. } => Some(GuestStage::Step(0)),
            Record::Step { index, .. } => Some(GuestStage::Step(*index)),
            Record::StepEnd { index, .. } => Some(GuestStage::Step(index.saturating_add(1))),
            Record::Error { .. } | Record::End { .. } => Some(GuestStage::PowerOff),
            _ => None,
        }
    }
}

impl fmt::Display for GuestStage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GuestStage::Boot => f.write_str("boot"),
            GuestStage::Window => f.write_str("window"),
            GuestStage::Plan => f.write_str("plan"),
            GuestStage::Step(index) => write!(f, "step {index}"),
            GuestStage::PowerOff => f.write_str("power off"),
        }
    }
}

impl fmt::Display for Waited {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Waited::Silent { cpu } => write!(
                f,
                "it said nothing for {:.1} seconds of QEMU's CPU time",
                cpu.as_secs_f64()
            ),
            Waited::Total { cpu } => {
                let seconds = cpu.as_secs_f64();
                write!(f, "it took {seconds:.1} seconds of QEMU's CPU time")
            }
            Waited::Wall { wall, cpu } => write!(
                f,
                "it said nothing for {:.0} seconds, in which QEMU got {:.1} seconds of CPU time",
                wall.as_secs_f64(),
                cpu.as_secs_f64()
            ),
        }
    }
}

/// After so much wall time a QEMU that got next to no CPU time is given up: it is stopped.
const STARVED: Duration = Duration::from_secs(60);

/// A QEMU gets next to no CPU time if it gets less than this share of the wall time. On a
/// host that is merely busy it gets more.
const STARVED_SHARE: u32 = 200;

/// A guest's progress against its deadlines.
#[derive(Debug)]
pub struct Watch {
    deadlines: Deadlines,
    stage: GuestStage,
    stage_cpu: Duration,
    heard: Instant,
    heard_cpu: Duration,
}

impl Watch {
    /// Starts in [`GuestStage::Boot`].
    pub fn new(deadlines: Deadlines, now: Instant) -> Watch {
        Watch {
            deadlines,
            stage: GuestStage::Boot,
            stage_cpu: Duration::ZERO,
            heard: now,
            heard_cpu: Duration::ZERO,
        }
    }

    pub(super) fn monitor_patience(&self) -> Duration {
        self.deadlines.monitor
    }

    /// The stage that the guest is in.
    pub fn stage(&self) -> GuestStage {
        self.stage
    }

    /// The guest said something; `cpu` is QEMU's CPU time so far.
    pub fn heard(&mut self, now: Instant, cpu: Duration) {
        self.heard = now;
        self.heard_cpu = cpu;
    }

    /// The guest enters a stage.
    pub fn enter(&mut self, stage: GuestStage, cpu: Duration) {
        self.stage = stage;
        self.stage_cpu = cpu;
    }

    /// What has run out, if anything.
    pub fn expired(&self, now: Instant, cpu: Duration) -> Option<Waited> {
        let limit = self.deadlines.of(self.stage);
        let silent = cpu.saturating_sub(self.heard_cpu);
        let total = cpu.saturating_sub(self.stage_cpu);
        let wall = now.saturating_duration_since(self.heard);
        if silent >= limit.silent {
            Some(Waited::Silent { cpu: silent })
        } else if total >= limit.total {
            Some(Waited::Total { cpu: total })
        } else if wall >= limit.wall || (wall >= STARVED && silent < wall / STARVED_SHARE) {
            Some(Waited::Wall { wall, cpu: silent })
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(n: u64) -> Duration {
        Duration::from_secs(n)
    }

    fn watch(now: Instant) -> Watch {
        let limit = StageLimit::new(10, 30, 100);
        let deadlines = Deadlines {
            monitor: limit.wall,
            boot: limit,
            window: limit,
            plan: limit,
            step: StageLimit::new(20, 60, 200),
            power_off: limit,
        };
        Watch::new(deadlines, now)
    }

    #[test]
    fn a_guest_that_works_in_silence_is_given_up_by_cpu_time() {
        let start = Instant::now();
        let watch = watch(start);
        assert_eq!(watch.expired(start + seconds(99), seconds(9)), None);
        assert_eq!(
            watch.expired(start + seconds(10), seconds(10)),
            Some(Waited::Silent { cpu: seconds(10) })
        );
    }

    #[test]
    fn a_word_gives_new_time_but_not_without_end() {
        let start = Instant::now();
        let mut watch = watch(start);
        for second in 1..30 {
            watch.heard(start + seconds(second), seconds(second));
            assert_eq!(
                watch.expired(start + seconds(second), seconds(second)),
                None
            );
        }
        assert_eq!(
            watch.expired(start + seconds(30), seconds(30)),
            Some(Waited::Total { cpu: seconds(30) })
        );
    }

    #[test]
    fn a_guest_that_gets_no_cpu_time_runs_into_the_backstop() {
        let start = Instant::now();
        let mut watch = watch(start);
        watch.heard(start, seconds(2));
        let waited = watch.expired(start + seconds(100), seconds(3)).unwrap();
        assert_eq!(
            waited.to_string(),
            "it said nothing for 100 seconds, in which QEMU got 1.0 seconds of CPU time"
        );
    }

    #[test]
    fn a_guest_that_gets_no_cpu_time_at_all_is_given_up_in_a_minute() {
        let start = Instant::now();
        let watch = Watch::new(Deadlines::STANDARD, start);
        let cpu = Duration::from_millis(10);
        assert_eq!(watch.expired(start + seconds(59), cpu), None);
        assert_eq!(
            watch.expired(start + seconds(60), cpu),
            Some(Waited::Wall {
                wall: seconds(60),
                cpu
            })
        );
        // One that gets a little is waited for.
        assert_eq!(watch.expired(start + seconds(60), seconds(1)), None);
    }

    #[test]
    fn each_stage_starts_anew_with_its_own_limit() {
        let start = Instant::now();
        let mut watch = watch(start);
        watch.heard(start, seconds(25));
        watch.enter(GuestStage::Step(0), seconds(25));
        assert_eq!(watch.expired(start, seconds(44)), None);
        assert_eq!(
            watch.expired(start, seconds(45)),
            Some(Waited::Silent { cpu: seconds(20) })
        );
    }

    #[test]
    fn records_lead_from_stage_to_stage() {
        let after = |record: &Record| GuestStage::after(record).map(|stage| stage.to_string());
        let uptime_ns = 0;
        assert_eq!(after(&Record::Window { uptime_ns }).unwrap(), "plan");
        assert_eq!(
            after(&Record::Step {
                index: 3,
                uptime_ns
            })
            .unwrap(),
            "step 3"
        );
        assert_eq!(
            after(&Record::StepEnd {
                index: 3,
                uptime_ns
            })
            .unwrap(),
            "step 4"
        );
        let (task, pid) = ("t".to_owned(), 1);
        assert_eq!(after(&Record::Started { task, pid }), None);
    }
}
