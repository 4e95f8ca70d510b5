//! One scenario on one kernel with one seed: from a plan to a report in a folder.

pub mod bundle;
pub mod cached_run;
pub mod inputs;
pub mod pool;
pub mod record_diff;
pub mod replay;
pub mod result;

pub(crate) mod folder;

mod cached;
mod conclude;
mod firmware;
mod guest;
mod identity;
mod prepare;
mod request;
mod runner;

use camino::Utf8Path;
use numalab_protocol::Record;
use tokio_util::sync::CancellationToken;

use crate::error::Error;
use crate::guest::records::Records;
use crate::guest::slots::SlotError;
use crate::report::{RunReport, text};
use crate::run::cached::Lookup;
use crate::run::guest::Beginning;
use crate::run::result::{Ran, StartedFrom};
use crate::ui::Ui;
use crate::verdict::Verdict;

pub use request::{DEFAULT_SHIFT, RunRequest};
pub use runner::{Runner, RunnerBuilder};

impl Runner {
    /// Runs a guest to its end, or takes its result from the cache, and judges it. The run's
    /// folder keeps everything.
    ///
    /// # Errors
    /// The folder cannot be written, or a signal came. What a guest does is no error, and
    /// neither is a host that cannot run it: such a run is inconclusive.
    pub async fn run(
        &self,
        request: &RunRequest<'_>,
        ui: &Ui,
        cancel: &CancellationToken,
    ) -> Result<RunReport, Error> {
        let mut prepared = prepare::prepare(self, request)?;
        let mut lookup = Lookup::new(self, request);
        let ran = match lookup.find(&prepared, ui, cancel).await {
            Some(ran) => ran,
            None => {
                let ran = match guest::begin(self, &mut prepared, ui, cancel).await? {
                    Beginning::Failed(outcome) => Ran::new(outcome, StartedFrom::Cold),
                    beginning => match guest::take_slot(self, &prepared, ui, cancel).await {
                        Ok(slot) => {
                            guest::observe(self, &mut prepared, beginning, &slot, ui, cancel)
                                .await?
                        }
                        Err(SlotError::Cancelled) => return Err(Error::Interrupted),
                        Err(SlotError::Memory(error)) => {
                            Ran::new(Err(error.into()), StartedFrom::Cold)
                        }
                    },
                };
                lookup.check_and_keep(self, &prepared, ran, ui).await
            }
        };
        let folder = &prepared.folder;
        let report = conclude::judge(self, request, ran, folder);
        folder.write_json("report.json", &report)?;
        let runs = text::runs(std::slice::from_ref(&report));
        folder.write("report.txt", runs.as_bytes())?;
        announce(&report, &prepared.title, ui);
        Ok(report)
    }
}

fn announce(report: &RunReport, title: &str, ui: &Ui) {
    let verdict = report.judgement.verdict;
    let cached = match &report.cached {
        Some(cached) => format!(" (cached {})", text::moment(cached.at)),
        None => String::new(),
    };
    ui.say(&format!("{verdict:12} {title}{cached}"));
    if !matches!(verdict, Verdict::Pass | Verdict::Measured) {
        ui.say(&format!("             {}", report.folder));
    }
}

/// The records that a run has left in its folder.
///
/// # Errors
/// They cannot be read, or are damaged.
pub(crate) fn records(folder: &Utf8Path) -> Result<Vec<Record>, Error> {
    let path = folder.join("records.jsonl");
    let bytes = std::fs::read(&path).map_err(Error::file("read", &path))?;
    let mut records = Records::default();
    records
        .push(&bytes)
        .map_err(|error| Error::file("read", &path)(std::io::Error::other(error)))?;
    Ok(records.into_records())
}
