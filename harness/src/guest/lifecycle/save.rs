//! Saves a guest: boots it, stops it in its window and saves it to its drive.
//!
//! The moment at which it is stopped depends on the host and changes nothing: once restored,
//! it continues to the window's end, and only then reads its plan.

use std::time::Duration;

use qapi::qmp;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::{ANSWER_PATIENCE, Ended, Guest, GuestError, GuestEvent, Limits, STOP_PATIENCE, check};
use crate::guest::argv::{Boot, DRIVE, SNAPSHOT};
use crate::guest::deadline::{Deadlines, GuestStage};
use crate::guest::outcome::End;
use crate::guest::output::Output;
use crate::guest::process::ProcessError;
use crate::guest::qemu::Qemu;
use crate::guest::qmp::QmpError;

/// How often the state of the saving job is queried.
const POLL: Duration = Duration::from_millis(2);

/// How many times it is queried: for about a minute. Saving takes a tenth of a second, longer
/// on a slow disk.
const POLLS: u32 = 30_000;

/// The saving job's name.
const JOB: &str = "save";

/// Why a guest was not saved.
#[derive(Debug, thiserror::Error)]
pub enum SaveError {
    /// No guest was run.
    #[error(transparent)]
    Guest(#[from] GuestError),
    /// It ended before it was ready.
    #[error("it ended in its {stage}: {end}")]
    Ended {
        /// How.
        end: End,
        /// Where it was.
        stage: GuestStage,
    },
    /// The window was over before the guest could be stopped.
    #[error("the window of the guest was over before it could be stopped")]
    Missed,
    /// QEMU does not take the commands.
    #[error("QEMU cannot save it")]
    Monitor(#[from] QmpError),
    /// QEMU tried and could not.
    #[error("QEMU could not save it: {why}")]
    Job {
        /// What QEMU said.
        why: String,
    },
}

/// Boots a guest, stops it in its window and saves it as [`SNAPSHOT`] on the drive of its
/// start, which must be savable. The files of its console and its records then hold what it
/// wrote before. QEMU is gone when this returns.
///
/// # Errors
/// It could not be saved; its files are of no use.
pub async fn save(
    qemu: &Qemu,
    boot: &Boot,
    deadlines: &Deadlines,
    limits: &Limits,
    on_event: impl FnMut(GuestEvent<'_>),
    cancel: CancellationToken,
) -> Result<(), SaveError> {
    check(qemu, boot)?;
    let mut output = Output::new(boot, deadlines, limits, on_event).map_err(GuestError::from)?;
    let mut guest = Guest::start(qemu, boot, &mut output).await?;
    let ended = guest
        .watch(boot, &mut output, Some(GuestStage::Boot), &cancel)
        .await;
    let saved = match ended {
        Ok(Ended::Reached) => tokio::select! {
            biased;
            () = cancel.cancelled() => Err(ended_at(End::Cancelled, &output)),
            saved = guest.save(&mut output) => saved,
        },
        Ok(Ended::Known(end)) => Err(ended_at(end, &output)),
        Ok(Ended::Exited) => {
            let gone = guest.process.end().await.map_err(GuestError::from)?;
            let (how, stderr) = (gone.how(), String::from_utf8_lossy(&gone.stderr).into());
            return Err(ended_at(End::QemuExit { how, stderr }, &output));
        }
        Err(error) => Err(error.into()),
    };
    guest.process.end().await.map_err(GuestError::from)?;
    saved
}

fn ended_at<F: FnMut(GuestEvent<'_>)>(end: End, output: &Output<F>) -> SaveError {
    let stage = output.stage();
    SaveError::Ended { end, stage }
}

impl Guest {
    /// Stops and saves, and lets QEMU end by itself, so that all of the drive is written.
    async fn save<F: FnMut(GuestEvent<'_>)>(
        &mut self,
        output: &mut Output<F>,
    ) -> Result<(), SaveError> {
        self.qmp.execute(qmp::stop {}, ANSWER_PATIENCE).await?;
        // Nothing is written any more, so this is the last word on where it was stopped.
        while output.take_more()? {}
        if output.stage() != GuestStage::Window {
            return Err(SaveError::Missed);
        }
        let save = qmp::snapshot_save {
            job_id: JOB.into(),
            tag: SNAPSHOT.into(),
            vmstate: DRIVE.into(),
            devices: vec![DRIVE.into()],
        };
        self.qmp.execute(save, ANSWER_PATIENCE).await?;
        self.job().await?;
        match self.qmp.execute(qmp::quit {}, ANSWER_PATIENCE).await {
            // It may be gone before its answer is read; its exit status shows whether it failed.
            Ok(_) | Err(QmpError::Closed { .. }) => {}
            Err(error) => return Err(error.into()),
        }
        let status = timeout(STOP_PATIENCE, self.process.wait()).await;
        match status {
            Ok(Ok(status)) if status.success() => Ok(()),
            Ok(Ok(status)) => Err(SaveError::Job {
                why: format!("it ended with {status} after that"),
            }),
            Ok(Err(error)) => Err(process(error)),
            Err(_) => Err(SaveError::Job {
                why: "it did not end after that".into(),
            }),
        }
    }

    /// Waits for the end of the saving job. It is asked, and not its events awaited: these
    /// may be anywhere in the queue of all others.
    async fn job(&self) -> Result<(), SaveError> {
        for _ in 0..POLLS {
            let jobs = self
                .qmp
                .execute(qmp::query_jobs {}, ANSWER_PATIENCE)
                .await?;
            let job = jobs.into_iter().find(|job| job.id == JOB);
            let Some(job) = job else {
                let why = "its job has vanished".into();
                return Err(SaveError::Job { why });
            };
            if let Some(why) = job.error {
                return Err(SaveError::Job { why });
            }
            if job.status == qmp::JobStatus::concluded {
                return Ok(());
            }
            sleep(POLL).await;
        }
        let why = "its job does not end".into();
        Err(SaveError::Job { why })
    }
}

fn process(error: ProcessError) -> SaveError {
    GuestError::from(error).into()
}
