//! Several guests at a time, results in the order in which they were asked for.

use std::num::NonZeroUsize;

use futures::StreamExt as _;
use tokio_util::sync::CancellationToken;

use crate::lab::LabError;
use crate::report::RunReport;
use crate::run::{Request, Stand};
use crate::ui::Ui;

/// Runs all requests, `jobs` guests at a time.
///
/// # Errors
/// A run folder cannot be written, or a signal came. What a guest does is no error.
pub async fn run(
    stand: &Stand,
    requests: &[Request<'_>],
    jobs: Option<usize>,
    ui: &Ui,
    cancel: &CancellationToken,
) -> Result<Vec<RunReport>, LabError> {
    let jobs = jobs.unwrap_or_else(|| guests_at_a_time(stand)).max(1);
    // Polled on the calling task, and not spawned: a guest dies with the thread that started
    // it (PR_SET_PDEATHSIG), and this one lives to the end.
    let runs = requests.iter().map(|request| {
        let cancel = cancel.clone();
        async move { stand.run(request, ui, &cancel).await }
    });
    let mut reports = Vec::new();
    let mut stream = futures::stream::iter(runs).buffered(jobs);
    let mut failed = None;
    while let Some(report) = stream.next().await {
        match report {
            Ok(report) => reports.push(report),
            Err(error) => {
                // The other guests are ended and reaped before this is reported.
                cancel.cancel();
                failed.get_or_insert(error);
            }
        }
    }
    match failed {
        Some(error) => Err(error),
        None if cancel.is_cancelled() => Err(LabError::Interrupted),
        None => Ok(reports),
    }
}

/// In exact mode a guest is one busy thread; a live guest has several, and time is what it
/// measures, so it runs alone.
fn guests_at_a_time(stand: &Stand) -> usize {
    if stand.is_live() {
        return 1;
    }
    std::thread::available_parallelism().map_or(1, NonZeroUsize::get)
}
