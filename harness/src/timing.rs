//! How a command spends its time: building, booting guests to be saved, running guests, and
//! the rest.
//!
//! Activities that overlap are counted once, for the first of these.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

/// What time is spent on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Activity {
    /// Building kernels, or finding that they are built.
    Build,
    /// Running guests.
    Guest,
    /// Booting guests to be saved.
    Boot,
}

/// Measures a command's time. Cheap to clone; all clones measure the same.
#[derive(Debug, Clone)]
pub struct Stopwatch {
    begun: Instant,
    parts: Arc<Mutex<Vec<Part>>>,
}

#[derive(Debug, Clone, Copy)]
struct Part {
    kind: Activity,
    begin: Instant,
    end: Instant,
}

/// An activity that lasts until this is dropped.
#[derive(Debug)]
pub struct TimedActivity {
    stopwatch: Stopwatch,
    kind: Activity,
    begin: Instant,
}

/// How time was spent, in milliseconds of the host's time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Timing {
    /// From the command's start.
    pub total_ms: u64,
    /// While a kernel was built or looked for.
    pub build_ms: u64,
    /// While at least one guest ran.
    pub guests_ms: u64,
    /// While no guest ran, and at least one was booted to be saved.
    pub boot_ms: u64,
    /// The rest.
    pub overhead_ms: u64,
    /// The sum of all guests' own run times, and of all boots'.
    pub guests_sum_ms: u64,
    /// How many of them could run at a time: the host's cores, if there were as many guests.
    pub cores: usize,
}

impl Default for Stopwatch {
    fn default() -> Stopwatch {
        Stopwatch {
            begun: Instant::now(),
            parts: Arc::default(),
        }
    }
}

impl Stopwatch {
    /// Begins an activity.
    pub fn begin(&self, kind: Activity) -> TimedActivity {
        TimedActivity {
            stopwatch: self.clone(),
            kind,
            begin: Instant::now(),
        }
    }

    /// How time was spent until now, on a host that runs so many guests at a time.
    pub fn split(&self, cores: usize) -> Timing {
        let parts = self.parts.lock().unwrap_or_else(PoisonError::into_inner);
        split(&parts, self.begun, Instant::now(), cores)
    }
}

impl Drop for TimedActivity {
    fn drop(&mut self) {
        let part = Part {
            kind: self.kind,
            begin: self.begin,
            end: Instant::now(),
        };
        let parts = self.stopwatch.parts.lock();
        parts.unwrap_or_else(PoisonError::into_inner).push(part);
    }
}

fn split(parts: &[Part], begin: Instant, end: Instant, cores: usize) -> Timing {
    let ms = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    let mut edges: Vec<Instant> = parts.iter().flat_map(|p| [p.begin, p.end]).collect();
    edges.sort();
    let mut times = [Duration::ZERO; 3];
    for pair in edges.windows(2) {
        let [from, to] = [pair[0], pair[1]];
        let going = parts.iter().filter(|p| p.begin <= from && p.end >= to);
        if let Some(kind) = going.map(|part| part.kind).min() {
            times[kind as usize] += to - from;
        }
    }
    let guests = parts.iter().filter(|part| part.kind != Activity::Build);
    let total = end - begin;
    Timing {
        total_ms: ms(total),
        build_ms: ms(times[Activity::Build as usize]),
        guests_ms: ms(times[Activity::Guest as usize]),
        boot_ms: ms(times[Activity::Boot as usize]),
        overhead_ms: ms(total.saturating_sub(times.iter().sum())),
        guests_sum_ms: ms(guests.clone().map(|part| part.end - part.begin).sum()),
        cores: cores.min(guests.count()),
    }
}

impl Timing {
    /// The rest's share of all, in percent.
    pub fn overhead_percent(&self) -> u64 {
        (self.overhead_ms * 100)
            .checked_div(self.total_ms)
            .unwrap_or(0)
    }
}

impl fmt::Display for Timing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = |ms: u64| {
            let tenths = (ms + 50) / 100;
            format!("{}.{}", tenths / 10, tenths % 10)
        };
        let percent = self.overhead_percent();
        write!(
            f,
            "{} s: build {}, guests {}, boots to be saved {}, overhead {} ({percent} %)",
            seconds(self.total_ms),
            seconds(self.build_ms),
            seconds(self.guests_ms),
            seconds(self.boot_ms),
            seconds(self.overhead_ms),
        )?;
        let alone = self.guests_sum_ms / self.cores.max(1) as u64;
        let running = self.total_ms.saturating_sub(self.build_ms);
        if let Some(hundredths) = (running * 100).checked_div(alone) {
            let (whole, rest) = (hundredths / 100, hundredths % 100);
            let (guests, cores) = (seconds(self.guests_sum_ms), self.cores);
            let over = if cores == 1 { "core" } else { "cores" };
            write!(
                f,
                "; excluding builds, {whole}.{rest:02}x the ideal guest time ({guests} s on {cores} {over})"
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_runs_side_by_side_is_counted_once() {
        let begun = Instant::now();
        let at = |ms| begun + Duration::from_millis(ms);
        let part = |kind, begin, end| Part {
            kind,
            begin: at(begin),
            end: at(end),
        };
        let parts = [
            part(Activity::Build, 100, 1100),
            part(Activity::Boot, 1200, 2200),
            part(Activity::Guest, 2000, 5000),
            part(Activity::Guest, 2100, 4000),
            part(Activity::Guest, 5500, 6500),
        ];
        let split = split(&parts, begun, at(7000), 2);
        let expected = Timing {
            total_ms: 7000,
            build_ms: 1000,
            guests_ms: 4000,
            boot_ms: 800,
            overhead_ms: 1200,
            guests_sum_ms: 6900,
            cores: 2,
        };
        assert_eq!(split, expected);
        assert_eq!(
            split.to_string(),
            "7.0 s: build 1.0, guests 4.0, boots to be saved 0.8, overhead 1.2 (17 %); excluding \
             builds, 1.73x the ideal guest time (6.9 s on 2 cores)"
        );
    }

    #[test]
    fn a_single_guest_is_compared_with_one_core() {
        let begun = Instant::now();
        let end = begun + Duration::from_millis(1000);
        let part = Part {
            kind: Activity::Guest,
            begin: begun,
            end,
        };
        let split = split(&[part], begun, end, 2);
        assert!(
            split
                .to_string()
                .ends_with("1.00x the ideal guest time (1.0 s on 1 core)"),
            "{split}"
        );
    }

    #[test]
    fn nothing_to_count_is_all_overhead() {
        let stopwatch = Stopwatch::default();
        let split = stopwatch.split(2);
        assert_eq!(split.overhead_ms, split.total_ms);
        assert!(!split.to_string().contains("ideal"));
    }
}
