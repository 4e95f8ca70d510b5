//! Runs several guests at a time, the longest first, and returns the results in the order of
//! the requests. `slots` decides how many run at once on the host.

use std::cmp::Reverse;
use std::collections::HashSet;

use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use numalab_kernels::Digest;
use tokio_util::sync::CancellationToken;

use crate::error::Error;
use crate::report::RunReport;
use crate::run::{RunRequest, Runner};
use crate::ui::Ui;

/// Runs all requests, `jobs` guests at a time.
///
/// # Errors
/// A run folder cannot be written, or a signal came. What a guest does is no error.
pub async fn run(
    runner: &Runner,
    requests: &[RunRequest<'_>],
    jobs: Option<usize>,
    ui: &Ui,
    cancel: &CancellationToken,
) -> Result<Vec<RunReport>, Error> {
    let jobs = jobs.unwrap_or_else(|| guests_at_a_time(runner)).max(1);
    let mut queue = Queue::new(requests.iter().map(|request| Entry {
        cpu_ms: runner.expected(request).cpu.as_millis(),
        key: runner.cache_key(request),
        boot: runner.boot_key(request),
    }));
    let mut reports: Vec<Option<RunReport>> = requests.iter().map(|_| None).collect();
    // Polled on the calling task, and not spawned: a guest dies with the thread that started
    // it (PR_SET_PDEATHSIG), and this one lives to the end.
    let mut running = FuturesUnordered::new();
    let mut failed = None;
    loop {
        while running.len() < jobs
            && failed.is_none()
            && let Some(index) = queue.next()
        {
            let cancel = cancel.clone();
            running.push(async move { (index, runner.run(&requests[index], ui, &cancel).await) });
        }
        let Some((index, report)) = running.next().await else {
            break;
        };
        queue.done(index);
        match report {
            Ok(report) => reports[index] = Some(report),
            Err(error) => {
                // The other guests are ended and reaped before this is reported.
                cancel.cancel();
                failed.get_or_insert(error);
            }
        }
    }
    match failed {
        Some(error) => Err(error),
        None if cancel.is_cancelled() => Err(Error::Interrupted),
        // Every one has run: the loop ends early only with an error.
        None => Ok(reports.into_iter().flatten().collect()),
    }
}

/// How many guests run at a time by default. A live guest has several threads and measures
/// time, so it runs alone.
pub(crate) fn guests_at_a_time(runner: &Runner) -> usize {
    if runner.is_live() {
        return 1;
    }
    runner.cores()
}

/// What is known of a run before it begins.
#[derive(Debug, Clone, Copy)]
struct Entry {
    cpu_ms: u128,
    /// The name of its result, where it may be cached.
    key: Option<Digest>,
    /// The name of the saved guest that it is restored from.
    boot: Option<Digest>,
}

/// The order of runs.
#[derive(Debug)]
struct Queue {
    entries: Vec<Entry>,
    /// What has not begun, the longest first.
    waiting: Vec<usize>,
    running: Vec<usize>,
    /// Saved guests that somebody has been restored from.
    booted: HashSet<Digest>,
}

impl Queue {
    fn new(entries: impl Iterator<Item = Entry>) -> Queue {
        let entries: Vec<Entry> = entries.collect();
        let mut waiting: Vec<usize> = (0..entries.len()).collect();
        // Stable: what takes as long stays in the order asked for.
        waiting.sort_by_key(|index| Reverse(entries[*index].cpu_ms));
        Queue {
            entries,
            waiting,
            running: Vec::new(),
            booted: HashSet::new(),
        }
    }

    /// The next run to begin: none whose result a running one will give, and preferably none
    /// that would only wait for a guest that is being booted.
    fn next(&mut self) -> Option<usize> {
        let is_free = |index: &usize| {
            let key = self.entries[*index].key;
            let mut running = self.running.iter();
            key.is_none() || running.all(|other| self.entries[*other].key != key)
        };
        let needs_no_wait = |index: &usize| {
            let boot = self.entries[*index].boot;
            let is_booted = boot.is_none_or(|boot| self.booted.contains(&boot));
            let mut running = self.running.iter();
            is_booted || running.all(|other| self.entries[*other].boot != boot)
        };
        let free = |waiting: &[usize], best: bool| {
            let fits = |index: &usize| is_free(index) && (!best || needs_no_wait(index));
            waiting.iter().position(fits)
        };
        let at = free(&self.waiting, true).or_else(|| free(&self.waiting, false))?;
        let index = self.waiting.remove(at);
        self.running.push(index);
        Some(index)
    }

    fn done(&mut self, index: usize) {
        self.running.retain(|running| *running != index);
        self.booted.extend(self.entries[index].boot);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(cpu_ms: u128, key: u8, boot: u8) -> Entry {
        Entry {
            cpu_ms,
            key: Some(Digest::of(&[key])),
            boot: Some(Digest::of(&[boot])),
        }
    }

    #[test]
    fn the_longest_comes_first_and_equals_stay_in_order() {
        let times = [1, 5, 3, 5];
        let mut queue = Queue::new((0..4).map(|n| entry(times[usize::from(n)], n, n)));
        let order: Vec<usize> = std::iter::from_fn(|| queue.next()).collect();
        assert_eq!(order, [1, 3, 2, 0]);
    }

    #[test]
    fn a_twin_waits_until_the_result_is_cached() {
        let mut queue = Queue::new([entry(5, 1, 1), entry(5, 1, 2), entry(1, 2, 3)].into_iter());
        assert_eq!(queue.next(), Some(0));
        assert_eq!(queue.next(), Some(2));
        assert_eq!(queue.next(), None, "it would only be run twice");
        queue.done(0);
        assert_eq!(queue.next(), Some(1));
        // Where nothing is cached, twins are as good as any.
        let nameless = Entry {
            key: None,
            boot: None,
            cpu_ms: 1,
        };
        let mut queue = Queue::new([nameless, nameless].into_iter());
        assert_eq!([queue.next(), queue.next()], [Some(0), Some(1)]);
    }

    #[test]
    fn two_do_not_wait_for_one_boot_where_another_could_begin() {
        let entries = [
            entry(5, 1, 1),
            entry(4, 2, 1),
            entry(3, 3, 2),
            entry(2, 4, 2),
        ];
        let mut queue = Queue::new(entries.into_iter());
        assert_eq!([queue.next(), queue.next()], [Some(0), Some(2)]);
        // There is nothing else to do, so it waits for the boot.
        assert_eq!(queue.next(), Some(1));
        queue.done(2);
        queue.done(0);
        assert_eq!(queue.next(), Some(3));
    }
}
