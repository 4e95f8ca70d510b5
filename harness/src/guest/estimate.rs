//! How long a plan may take, added to the standard deadlines so that a long step is not
//! mistaken for a hang. It is an upper bound, not a prediction.

use std::collections::BTreeMap;
use std::time::Duration;

use numalab_protocol::Plan;
use numalab_protocol::plan::{Actor, Command, Populate, Region, Until};

use super::deadline::{Deadlines, StageLimit};

/// A factor for debug kernels and for hosts that are slower than the one that was measured.
const SAFETY: u32 = 4;

/// The least CPU time of QEMU that a second of guest time is given, whatever the shift: the
/// host's work for 1000 timer ticks of each of 64 CPUs does not become less with the guest's
/// instructions.
const TICKS: Duration = Duration::from_millis(1500);

/// CPU time of QEMU for 10^9 instructions, which are a second of guest time at shift 0.
const INSTRUCTIONS: Duration = Duration::from_secs(20);

/// CPU time of QEMU for a page that is written and read in a pass.
const VISIT: Duration = Duration::from_micros(5);

/// CPU time of QEMU for a page that is faulted in or asked for.
const FAULT: Duration = Duration::from_micros(100);

/// CPU time of QEMU for a second of guest time with tasks that touch memory, at the default
/// shift: what the shipped scenarios were measured to take, and not a bound.
const USUAL: Duration = Duration::from_millis(300);

/// CPU time of QEMU from a saved guest to its first step, and from its last to the end.
const AROUND: Duration = Duration::from_millis(800);

/// A stage's longest wall time without a word, as far as a plan does not ask for more itself:
/// a minute less than a test runner allows for a whole test (`.config/nextest.toml`).
const CEILING: Duration = Duration::from_secs(14 * 60);

impl Deadlines {
    /// [`Deadlines::STANDARD`], with more time for a step if the plan's steps ask for it.
    /// `shift` is exact mode's; `None` is live mode.
    pub fn for_plan(plan: &Plan, shift: Option<u8>) -> Deadlines {
        let regions = regions(plan);
        let steps = plan.steps.iter().map(|step| {
            let prepare = side_by_side(&step.prepare, &regions);
            let lanes = side_by_side(&step.actors, &regions);
            Work {
                guest: prepare.guest.saturating_add(lanes.guest),
                cpu: prepare.cpu.saturating_add(lanes.cpu),
            }
        });
        let cpus = plan.topology.nodes.iter().map(|node| node.cpus.len()).sum();
        // One limit serves all steps: the most that any of them asks for.
        let (mut cpu, mut wall) = (Duration::ZERO, Duration::ZERO);
        for work in steps {
            let bound = work.cpu_time(shift, cpus);
            cpu = cpu.max(bound);
            wall = wall.max(match shift {
                Some(_) => bound,
                None => work.guest.saturating_add(work.cpu),
            });
        }
        let standard = Deadlines::STANDARD;
        let more = cpu.saturating_mul(SAFETY);
        let generous = wall.saturating_mul(SAFETY).min(CEILING);
        let step = StageLimit {
            silent: standard.step.silent.saturating_add(more),
            total: standard.step.total.saturating_add(more),
            wall: standard.step.wall.max(generous).max(wall.saturating_mul(2)),
        };
        Deadlines { step, ..standard }
    }
}

/// Guesses the CPU time of QEMU for a plan that never ran, for sorting plans.
pub fn guess(plan: &Plan) -> Duration {
    let regions = regions(plan);
    let lanes = plan
        .steps
        .iter()
        .flat_map(|step| [&step.prepare, &step.actors]);
    lanes
        .map(|lanes| side_by_side(lanes, &regions))
        .map(|work| times(USUAL, work.guest.as_millis(), 1000) + work.cpu / SAFETY)
        .fold(AROUND, Duration::saturating_add)
}

/// What lanes ask for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Work {
    /// Guest time.
    guest: Duration,
    /// CPU time of QEMU, for what is asked for by number and not by time.
    cpu: Duration,
}

impl Work {
    /// The most CPU time of QEMU.
    fn cpu_time(self, shift: Option<u8>, cpus: usize) -> Duration {
        let a_second = match shift {
            // One thread, which executes at most so many instructions, of whatever CPUs.
            Some(shift) => {
                let halved = INSTRUCTIONS / 1_u32.checked_shl(shift.into()).unwrap_or(u32::MAX);
                halved.max(TICKS)
            }
            // A thread for each CPU, and one for everything else.
            None => {
                let cpus = u32::try_from(cpus).unwrap_or(u32::MAX);
                Duration::from_secs(1).saturating_mul(cpus.saturating_add(1))
            }
        };
        times(a_second, self.guest.as_millis(), 1000).saturating_add(self.cpu)
    }
}

/// `unit * number / divisor`, or the longest duration.
fn times(unit: Duration, number: u128, divisor: u128) -> Duration {
    let nanos = unit.as_nanos().saturating_mul(number) / divisor;
    match u64::try_from(nanos / 1_000_000_000) {
        Ok(seconds) => {
            let rest = u32::try_from(nanos % 1_000_000_000).unwrap_or(0);
            Duration::new(seconds, rest)
        }
        Err(_) => Duration::MAX,
    }
}

/// The most pages that a task's region of a name has.
type Regions<'p> = BTreeMap<(Option<&'p str>, &'p str), u128>;

fn regions(plan: &Plan) -> Regions<'_> {
    let mut regions = Regions::new();
    let lanes = plan
        .steps
        .iter()
        .flat_map(|step| step.prepare.iter().chain(&step.actors));
    for lane in lanes {
        for command in &lane.commands {
            if let Command::Map(region) = command {
                let known = regions.entry((lane.task.as_deref(), region.name.as_str()));
                let known = known.or_default();
                *known = pages(region).max(*known);
            }
        }
    }
    regions
}

fn pages(region: &Region) -> u128 {
    u128::from(region.size / 4096) * u128::from(region.count)
}

fn side_by_side(lanes: &[Actor], regions: &Regions<'_>) -> Work {
    let mut all = Work::default();
    for lane in lanes {
        let mut work = Work::default();
        for command in &lane.commands {
            let (guest_ms, cpu) = needs(lane, command, regions);
            work.guest = work.guest.saturating_add(Duration::from_millis(guest_ms));
            work.cpu = work.cpu.saturating_add(cpu);
        }
        all.guest = all.guest.max(work.guest);
        all.cpu = all.cpu.saturating_add(work.cpu);
    }
    all
}

/// Milliseconds of guest time, and CPU time of QEMU, that a command may take.
fn needs(lane: &Actor, command: &Command, regions: &Regions<'_>) -> (u64, Duration) {
    let pages_of = |region: &str| {
        let pages = regions.get(&(lane.task.as_deref(), region));
        pages.copied().unwrap_or(0)
    };
    match command {
        Command::Sleep { ms } => (*ms, Duration::ZERO),
        Command::Touch { region, until } => match until {
            Until::Elapsed { ms } => (*ms, Duration::ZERO),
            Until::ScanSeq { within_ms, .. } => (*within_ms, Duration::ZERO),
            Until::Passes { count } => {
                let visits = pages_of(region).saturating_mul(u128::from(*count));
                (0, times(VISIT, visits, 1))
            }
        },
        Command::Map(region) if region.populate != Populate::No => {
            (0, times(FAULT, pages(region), 1))
        }
        Command::Probe { region } | Command::Placement { region } => {
            (0, times(FAULT, pages_of(region), 1))
        }
        Command::Map(_)
        | Command::Unmap { .. }
        | Command::Protect { .. }
        | Command::Affinity { .. }
        | Command::Policy(_)
        | Command::Exit { .. }
        | Command::Set(_)
        | Command::Cpuset(_) => (0, Duration::ZERO),
    }
}

#[cfg(test)]
mod tests;
