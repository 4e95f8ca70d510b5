//! One commit: built, run, and judged by the scenario's own expectation.
//!
//! What goes wrong otherwise (it does not build or boot, it warns, a guard does not hold, the
//! seeds disagree) says nothing of the commit, unless the caller asks for it.

use std::collections::BTreeMap;
use std::time::Instant;

use camino::Utf8PathBuf;
use numalab_kernels::config::ConfigError;
use numalab_kernels::patch::{Mismatch, PatchError};
use numalab_kernels::source::SourceError;
use numalab_kernels::spec::{Fragment, Origin, Patch};
use numalab_kernels::{BuildError, ErrorKind, KernelError, KernelSpec};
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use super::answer::{self, Answer};
use super::confidence::{Decision, RepetitionPlan};
use crate::error::Error;
use crate::error_chain::sentence;
use crate::report::RunReport;
use crate::run::pool;
use crate::run::{RunRequest, Runner, RunnerBuilder};
use crate::scenario::Scenario;
use crate::ui::Ui;
use crate::verdict::Judgement;
use crate::workspace::{BootKernel, Limits, Workspace};

/// How commits are judged.
#[derive(Debug)]
pub struct Method<'a> {
    /// The scenario whose expectations decide.
    pub scenario: &'a Scenario,
    /// In exact mode: the seeds, which must agree.
    pub seeds: &'a [u64],
    /// In live mode: how often it is run and what the failures say.
    pub plan: Option<RepetitionPlan>,
    /// Another shift than the scenario's own.
    pub shift: Option<u8>,
    /// Kernel parameters added to the scenario's own.
    pub append: &'a [String],
    /// Guests and compilers at a time.
    pub jobs: Option<usize>,
    /// Patches that are put on each commit, or taken back from it.
    pub patches: &'a [Patch],
    /// Configuration that is added to each kernel's.
    pub fragments: &'a [Fragment],
    /// Whether what does not build, or visibly breaks while it runs, is bad.
    pub broken_is_bad: bool,
}

/// What came of one commit.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Judged {
    /// Good, bad, or neither.
    pub answer: Answer,
    /// Why, in a sentence.
    pub why: String,
    /// SHA-256 of the image that ran; absent if none was built.
    pub image: Option<String>,
    /// The scenario's expectations with the values that were seen, one for each seed.
    pub values: BTreeMap<String, Vec<Option<i64>>>,
    /// The runs' folders.
    pub folders: Vec<Utf8PathBuf>,
    /// How many of the runs are cached ones.
    pub cached: usize,
    /// Seconds for checking out, patching, configuring and compiling.
    pub build_seconds: f64,
    /// Seconds for all guests.
    pub guest_seconds: f64,
    /// What should be known beside it.
    pub notes: Vec<String>,
}

/// Judges kernels one after the other, on one host.
#[derive(Debug)]
pub struct Judge<'a> {
    workspace: &'a Workspace,
    method: &'a Method<'a>,
    ui: &'a Ui,
    cancel: &'a CancellationToken,
    /// Whether guests can run here is known once there is a kernel.
    host: Host,
}

#[derive(Debug)]
enum Host {
    RunnerBuilder(Box<RunnerBuilder>),
    Ready(Box<Runner>),
    /// While it is being made ready, and for ever if that failed.
    Gone,
}

impl<'a> Judge<'a> {
    /// Begins with a host that was checked.
    pub fn new(
        workspace: &'a Workspace,
        host: RunnerBuilder,
        method: &'a Method<'a>,
        ui: &'a Ui,
        cancel: &'a CancellationToken,
    ) -> Judge<'a> {
        let host = Host::RunnerBuilder(Box::new(host));
        Judge {
            workspace,
            method,
            ui,
            cancel,
            host,
        }
    }

    /// The host, once a kernel was booted on it.
    pub fn runner(&self) -> Option<&Runner> {
        match &self.host {
            Host::Ready(runner) => Some(runner),
            _ => None,
        }
    }

    /// Judges a kernel. `fresh` builds it from nothing, without the compiler's cache.
    ///
    /// # Errors
    /// This machine does not allow an answer about any kernel (a full disk, no QEMU), what is
    /// asked for is wrong, or a signal came.
    pub async fn judge(&mut self, mut wanted: KernelSpec, fresh: bool) -> Result<Judged, Error> {
        let start = Instant::now();
        let mut notes = Vec::new();
        let built = self.build(&mut wanted, fresh, &mut notes);
        let build_seconds = start.elapsed().as_secs_f64();
        let mut judged = Judged {
            answer: Answer::CannotJudge,
            why: String::new(),
            image: None,
            values: BTreeMap::new(),
            folders: Vec::new(),
            cached: 0,
            build_seconds,
            guest_seconds: 0.0,
            notes,
        };
        let kernel = match built {
            Ok(kernel) => kernel,
            Err(error) => {
                let (why, kind) = unbuilt(error)?;
                judged.why = why;
                if kind == ErrorKind::Build && self.method.broken_is_bad {
                    judged.answer = Answer::Bad;
                }
                return Ok(judged);
            }
        };
        judged.image = Some(kernel.id.digest.clone());
        let scenario = self.method.scenario;
        if let Some(reason) = scenario.does_not_apply(&kernel.id.release) {
            judged.why = reason.to_string();
            return Ok(judged);
        }
        self.ready(&kernel).await?;
        let start = Instant::now();
        let reports = self.run(&kernel).await?;
        if let Some(what) = reports.iter().find_map(|run| run.host.clone()) {
            return Err(Error::Host { what });
        }
        judged.guest_seconds = start.elapsed().as_secs_f64();
        judged.folders = reports.iter().map(|run| run.folder.clone()).collect();
        judged.cached = reports.iter().filter(|run| run.cached.is_some()).count();
        judged.values = values(&reports);
        let judgements: Vec<Judgement> = reports.iter().map(|run| run.judgement.clone()).collect();
        (judged.answer, judged.why) = match self.method.plan {
            None => answer::unanimous(&judgements, self.method.broken_is_bad),
            Some(plan) => answer::by_plan(plan, &judgements, self.method.broken_is_bad),
        };
        Ok(judged)
    }

    /// Builds it with what each step gets. A patch that is there already is left out.
    fn build(
        &self,
        wanted: &mut KernelSpec,
        fresh: bool,
        notes: &mut Vec<String>,
    ) -> Result<BootKernel, Error> {
        let mut patches = self.method.patches.to_vec();
        loop {
            let mut wanted = wanted.clone();
            if let Origin::Recipe(recipe) = &mut wanted.origin {
                recipe.patches.extend(patches.iter().cloned());
                recipe.fragments.extend_from_slice(self.method.fragments);
            }
            let limits = Limits {
                jobs: self.method.jobs,
            };
            let build = || {
                self.workspace
                    .kernel_built(&wanted, fresh, limits, self.ui, self.cancel)
            };
            match build() {
                Err(Error::Kernel(KernelError::Patch(PatchError::Conflict {
                    patch, why, ..
                }))) if matches!(why, Mismatch::AlreadyApplied | Mismatch::NotApplied) => {
                    let before = patches.len();
                    patches.retain(|one| one.label() != patch);
                    if patches.len() == before {
                        // Not one of ours to leave out; it is told as what it is.
                        return build();
                    }
                    notes.push(format!(
                        "the patch {patch} changes nothing here: it is left out"
                    ));
                }
                other => return other,
            }
        }
    }

    async fn ready(&mut self, kernel: &BootKernel) -> Result<(), Error> {
        self.host = match std::mem::replace(&mut self.host, Host::Gone) {
            Host::RunnerBuilder(host) => {
                let runner = host.ready(&kernel.id, self.ui, self.cancel).await?;
                Host::Ready(Box::new(runner))
            }
            host => host,
        };
        Ok(())
    }

    async fn run(&self, kernel: &BootKernel) -> Result<Vec<RunReport>, Error> {
        let Some(runner) = self.runner() else {
            return Err(Error::Interrupted);
        };
        let request = |seed| {
            let Method {
                scenario,
                shift,
                append,
                ..
            } = self.method;
            RunRequest::new(scenario, &kernel.id, seed, *shift, append)
        };
        let run = async |seeds: std::ops::Range<u64>| {
            let requests: Vec<RunRequest<'_>> = seeds.map(request).collect::<Result<_, _>>()?;
            pool::run(runner, &requests, self.method.jobs, self.ui, self.cancel).await
        };
        let Some(plan) = self.method.plan else {
            let seeds = self.method.seeds.iter().map(|seed| request(*seed));
            let requests: Vec<RunRequest<'_>> = seeds.collect::<Result<_, _>>()?;
            return pool::run(runner, &requests, self.method.jobs, self.ui, self.cancel).await;
        };
        // As many as run at a time, so that none is run after the answer is known.
        let jobs = self.method.jobs;
        let portion = jobs.unwrap_or_else(|| pool::guests_at_a_time(runner)) as u64;
        let mut reports: Vec<RunReport> = Vec::new();
        let mut seed = 1;
        // Runs that say nothing are made up for, up to as many again.
        let most = u64::from(plan.runs) * 2;
        while seed <= most {
            let judgements = reports.iter().map(|run| &run.judgement);
            let (clean, failures) = answer::counted(judgements);
            let more = match plan.decide(clean, failures) {
                Decision::More(more) => u64::from(more).min(portion.max(1)),
                _ => break,
            };
            let end = (seed + more).min(most + 1);
            reports.extend(run(seed..end).await?);
            seed = end;
        }
        Ok(reports)
    }
}

/// Why a kernel was not built, if that says something of this kernel alone.
fn unbuilt(error: Error) -> Result<(String, ErrorKind), Error> {
    let Error::Kernel(error) = error else {
        return Err(error);
    };
    let kind = error.kind();
    let own = match &error {
        KernelError::Build(error) => {
            kind == ErrorKind::Build
                || matches!(
                    error,
                    BuildError::TooNew { .. }
                        | BuildError::TooOld { .. }
                        | BuildError::Ancient { .. }
                        | BuildError::File { .. }
                )
        }
        KernelError::Patch(error) => matches!(
            error,
            PatchError::Conflict { .. } | PatchError::Missing { .. }
        ),
        // A fragment that is wrong is so for every commit.
        KernelError::Config(error) => {
            kind == ErrorKind::Input
                && !matches!(
                    error,
                    ConfigError::Syntax { .. } | ConfigError::Value { .. }
                )
        }
        KernelError::Source(error) => matches!(error, SourceError::NoKernel { .. }),
        _ => false,
    };
    if own {
        return Ok((sentence(&error), kind));
    }
    Err(Error::Kernel(error))
}

/// The expectations' values, run by run.
fn values(reports: &[RunReport]) -> BTreeMap<String, Vec<Option<i64>>> {
    let mut values: BTreeMap<String, Vec<Option<i64>>> = BTreeMap::new();
    for run in reports {
        for assertion in &run.judgement.expectations {
            let name = format!(
                "{} ({})",
                assertion.assertion.subject, assertion.assertion.bound
            );
            let value = assertion.value.as_ref().ok().copied();
            values.entry(name).or_default().push(value);
        }
    }
    values
}
