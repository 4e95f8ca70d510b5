//! The short way from a kernel spec to a verdict, for programs that use numalab as a
//! library.

use tokio_util::sync::CancellationToken;

use crate::error::Error;
use crate::guest::mode::AcceleratorChoice;
use crate::report::{KernelId, RunReport};
use crate::run::cached_run::CachePolicy;
use crate::run::{RunRequest, Runner};
use crate::scenario::Scenario;
use crate::ui::Ui;
use crate::workspace::{BootKernel, Limits, Workspace};

/// Runs scenarios on one kernel, in exact mode.
///
/// ```no_run
/// use numalab::prelude::*;
///
/// # async fn example() -> miette::Result<()> {
/// let scenario = Scenario::load("scenarios/two-threads.yaml".into())?;
/// let runner = Workspace::open()?.runner("linux-6.12").await?;
/// let report = runner.run(&scenario, 1).await?;
/// assert_eq!(report.judgement.verdict, Verdict::Pass);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct KernelRunner {
    kernel: BootKernel,
    runner: Runner,
    ui: Ui,
    cancel: CancellationToken,
}

impl Workspace {
    /// Builds the kernel that `spec` names, unless the cache has it, and prepares to run
    /// guests on it in exact mode. It prints nothing but warnings, and works on any tokio
    /// runtime.
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), numalab::Error> {
    /// use numalab::prelude::*;
    ///
    /// let runner = Workspace::open()?.runner("linux-6.12+my-fix.patch").await?;
    /// println!("{}", runner.kernel().release);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// No kernel has this spec, it does not build, or the host cannot run exact guests.
    pub async fn runner(&self, spec: &str) -> Result<KernelRunner, Error> {
        let policy = CachePolicy::of_test(&self.environment);
        self.runner_with(spec, policy, CancellationToken::new())
            .await
    }

    /// As [`Workspace::runner`], with a policy for cached results and a token that ends what
    /// is going on.
    ///
    /// # Errors
    /// As [`Workspace::runner`]; also [`Error::Interrupted`] once `cancel` is cancelled.
    pub async fn runner_with(
        &self,
        spec: &str,
        policy: CachePolicy,
        cancel: CancellationToken,
    ) -> Result<KernelRunner, Error> {
        let ui = Ui::new(true);
        let builder = Runner::check(self, false, AcceleratorChoice::Auto)?.caching(policy);
        let spec = self.wanted(spec)?;
        let kernel = self.kernel(&spec, Limits::default(), &ui, &cancel)?;
        let runner = builder.ready(&kernel.id, &ui, &cancel).await?;
        Ok(KernelRunner {
            kernel,
            runner,
            ui,
            cancel,
        })
    }
}

impl KernelRunner {
    /// Runs a scenario once, with a seed, and judges it. A guest that goes wrong is no error:
    /// the report's verdict is then `inconclusive`, with the reason.
    ///
    /// # Errors
    /// The run's folder cannot be written, or the run was cancelled.
    pub async fn run(&self, scenario: &Scenario, seed: u64) -> Result<RunReport, Error> {
        let request = RunRequest::new(scenario, &self.kernel.id, seed, None, &[])?;
        self.runner.run(&request, &self.ui, &self.cancel).await
    }

    /// The kernel: its release, digest and source.
    pub fn kernel(&self) -> &KernelId {
        &self.kernel.id
    }
}
