//! Judges one commit: builds it, runs the scenario, and reads the mark from its expectations.
//!
//! Any other failure (it does not build or boot, it warns, a guard does not hold, the seeds
//! disagree) says nothing about the commit, unless the caller asks for it.

use std::collections::BTreeMap;
use std::time::Instant;

use numalab_kernels::catalog::Setting;
use numalab_kernels::config::ConfigError;
use numalab_kernels::patch::{Mismatch, PatchError};
use numalab_kernels::source::SourceError;
use numalab_kernels::spec::{Origin, Patch};
use numalab_kernels::{BuildError, ErrorKind, KernelError, KernelSpec};
use tokio_util::sync::CancellationToken;

use super::confidence::{Decision, RepetitionPlan};
use super::mark;
use super::step::{CommitResult, Mark};
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
    /// Exact mode: the seeds, which must agree.
    pub seeds: &'a [u64],
    /// Live mode: how often the scenario runs and how many failures are tolerated.
    pub plan: Option<RepetitionPlan>,
    /// Overrides the scenario's `-icount` shift.
    pub shift: Option<u8>,
    /// Kernel parameters added to the scenario's own.
    pub append: &'a [String],
    /// How many guests and compilers run at a time.
    pub jobs: Option<usize>,
    /// Patches that are applied to each commit, or reverted from it.
    pub patches: &'a [Patch],
    /// Configuration that is added to each commit's.
    pub settings: &'a [Setting],
    /// Whether a commit that fails to build, boot or stay clean is bad.
    pub broken_is_bad: bool,
}

/// Judges kernels one after the other, on one host.
#[derive(Debug)]
pub struct Judge<'a> {
    workspace: &'a Workspace,
    method: &'a Method<'a>,
    ui: &'a Ui,
    cancel: &'a CancellationToken,
    host: Host,
}

/// Whether guests can run here is known only once there is a kernel to try.
#[derive(Debug)]
enum Host {
    Untried(Box<RunnerBuilder>),
    Ready(Box<Runner>),
    /// While it is tried, and for good if that fails.
    Gone,
}

impl<'a> Judge<'a> {
    /// Judges with a runner that has not been tried yet.
    pub fn new(
        workspace: &'a Workspace,
        builder: RunnerBuilder,
        method: &'a Method<'a>,
        ui: &'a Ui,
        cancel: &'a CancellationToken,
    ) -> Judge<'a> {
        Judge {
            workspace,
            method,
            ui,
            cancel,
            host: Host::Untried(Box::new(builder)),
        }
    }

    /// The runner, once a kernel was booted.
    pub fn runner(&self) -> Option<&Runner> {
        match &self.host {
            Host::Ready(runner) => Some(runner),
            _ => None,
        }
    }

    /// Judges a kernel. `clean` builds it from scratch, without the compiler's cache.
    ///
    /// # Errors
    /// This machine does not allow an answer about any kernel (a full disk, no QEMU), the input
    /// is wrong, or a signal came.
    pub async fn judge(&mut self, spec: KernelSpec, clean: bool) -> Result<CommitResult, Error> {
        let start = Instant::now();
        let mut notes = Vec::new();
        let built = self.build(spec, clean, &mut notes);
        let mut result = CommitResult {
            mark: Mark::Skip,
            why: String::new(),
            host: None,
            image: None,
            values: BTreeMap::new(),
            folders: Vec::new(),
            cached: 0,
            build_seconds: start.elapsed().as_secs_f64(),
            guest_seconds: 0.0,
            notes,
        };
        let kernel = match built {
            Ok(kernel) => kernel,
            Err(error) => {
                let (why, kind) = not_built(error)?;
                result.why = why;
                if kind == ErrorKind::Build && self.method.broken_is_bad {
                    result.mark = Mark::Bad;
                }
                return Ok(result);
            }
        };
        result.image = Some(kernel.id.digest.clone());
        if let Some(reason) = self.method.scenario.does_not_apply(&kernel.id.release) {
            result.why = reason.to_string();
            return Ok(result);
        }
        self.ready(&kernel).await?;
        let start = Instant::now();
        let reports = self.run(&kernel, &mut result.notes).await?;
        if let Some(what) = reports.iter().find_map(|run| run.host.clone()) {
            return Err(Error::Host { what });
        }
        result.guest_seconds = start.elapsed().as_secs_f64();
        result.folders = reports.iter().map(|run| run.folder.clone()).collect();
        result.cached = reports.iter().filter(|run| run.cached.is_some()).count();
        result.values = values(&reports);
        let judgements: Vec<Judgement> = reports.iter().map(|run| run.judgement.clone()).collect();
        (result.mark, result.why) = match self.method.plan {
            None => mark::unanimous(&judgements, self.method.broken_is_bad),
            Some(plan) => mark::by_plan(plan, &judgements, self.method.broken_is_bad),
        };
        if result.mark == Mark::Skip {
            result.host = reports.iter().find_map(|run| run.host_suspected.clone());
        }
        Ok(result)
    }

    /// Builds a kernel with the patches and settings of each commit. Patches that are in it
    /// already are left out.
    fn build(
        &self,
        spec: KernelSpec,
        clean: bool,
        notes: &mut Vec<String>,
    ) -> Result<BootKernel, Error> {
        let mut patches = self.method.patches.to_vec();
        loop {
            let mut spec = spec.clone();
            self.workspace
                .catalog
                .configure(&mut spec, self.method.settings)?;
            if let Origin::Recipe(recipe) = &mut spec.origin {
                recipe.patches.extend(patches.iter().cloned());
                // An option that some commits lack is no reason to skip these.
                recipe.fragments.append(&mut recipe.own);
            }
            let limits = Limits {
                jobs: self.method.jobs,
            };
            let built = self
                .workspace
                .kernel_built(&spec, clean, limits, self.ui, self.cancel);
            let Err(Error::Kernel(KernelError::Patch(PatchError::Conflict { patch, why, .. }))) =
                &built
            else {
                return built;
            };
            let before = patches.len();
            if matches!(why, Mismatch::AlreadyApplied | Mismatch::NotApplied) {
                patches.retain(|one| one.label() != *patch);
            }
            if patches.len() == before {
                return built;
            }
            notes.push(format!("the patch {patch} changes nothing here: ignored"));
        }
    }

    async fn ready(&mut self, kernel: &BootKernel) -> Result<(), Error> {
        self.host = match std::mem::replace(&mut self.host, Host::Gone) {
            Host::Untried(builder) => {
                let runner = builder.ready(&kernel.id, self.ui, self.cancel).await?;
                Host::Ready(Box::new(runner))
            }
            host => host,
        };
        Ok(())
    }

    async fn run(
        &self,
        kernel: &BootKernel,
        notes: &mut Vec<String>,
    ) -> Result<Vec<RunReport>, Error> {
        let Some(plan) = self.method.plan else {
            let seeds = self.method.seeds.iter().copied();
            return self.run_seeds(kernel, seeds, notes).await;
        };
        let Some(runner) = self.runner() else {
            return Err(Error::Interrupted);
        };
        // As many as run at a time, so that none starts after the answer is known.
        let jobs = self.method.jobs;
        let portion = jobs.unwrap_or_else(|| pool::guests_at_a_time(runner)) as u64;
        let mut reports: Vec<RunReport> = Vec::new();
        let mut seed = 1;
        // Runs without a verdict are replaced, by up to as many again.
        let most = u64::from(plan.runs) * 2;
        while seed <= most {
            let (clean, failures) = mark::counted(reports.iter().map(|run| &run.judgement));
            let more = match plan.decide(clean, failures) {
                Decision::More(more) => u64::from(more).min(portion.max(1)),
                _ => break,
            };
            let end = (seed + more).min(most + 1);
            reports.extend(self.run_seeds(kernel, seed..end, notes).await?);
            seed = end;
        }
        Ok(reports)
    }

    /// Runs the scenario with some seeds. Where this machine may have failed, it runs once more.
    async fn run_seeds(
        &self,
        kernel: &BootKernel,
        seeds: impl Iterator<Item = u64>,
        notes: &mut Vec<String>,
    ) -> Result<Vec<RunReport>, Error> {
        let Some(runner) = self.runner() else {
            return Err(Error::Interrupted);
        };
        let Method {
            scenario,
            shift,
            append,
            jobs,
            ..
        } = self.method;
        let request = |seed| RunRequest::new(scenario, &kernel.id, seed, *shift, append);
        let requests: Vec<RunRequest<'_>> = seeds.map(request).collect::<Result<_, _>>()?;
        let mut reports = pool::run(runner, &requests, *jobs, self.ui, self.cancel).await?;
        let suspected = |run: &&mut RunReport| run.host.is_none() && run.host_suspected.is_some();
        let failed: Vec<&mut RunReport> = reports.iter_mut().filter(suspected).collect();
        if failed.is_empty() {
            return Ok(reports);
        }
        let again = failed.iter().map(|run| request(run.inputs.seed));
        let again: Vec<RunRequest<'_>> = again.collect::<Result<_, _>>()?;
        for run in &failed {
            let (seed, ending) = (run.inputs.seed, &run.ending);
            let note = format!("seed {seed} ran again: {ending}");
            self.ui.say(&format!("  {note}"));
            notes.push(note);
        }
        let retried = pool::run(runner, &again, *jobs, self.ui, self.cancel).await?;
        for (run, retried) in failed.into_iter().zip(retried) {
            *run = retried;
        }
        Ok(reports)
    }
}

/// Why a kernel was not built, if the reason concerns this kernel alone.
fn not_built(error: Error) -> Result<(String, ErrorKind), Error> {
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
        // A fragment with a wrong line is wrong for every commit.
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

fn values(reports: &[RunReport]) -> BTreeMap<String, Vec<Option<i64>>> {
    let mut values: BTreeMap<String, Vec<Option<i64>>> = BTreeMap::new();
    for run in reports {
        for assertion in &run.judgement.expectations {
            let name = format!(
                "{} ({})",
                assertion.assertion.observable, assertion.assertion.bound
            );
            let value = assertion.value.as_ref().ok().copied();
            values.entry(name).or_default().push(value);
        }
    }
    values
}
