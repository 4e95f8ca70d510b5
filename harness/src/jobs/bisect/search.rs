//! The search: both ends, the steps between them, and the verification of the answer.
//!
//! It knows nothing about kernels: whoever judges commits is passed in.

use std::collections::BTreeSet;
use std::time::Duration;

use numalab_kernels::source::repository::{Commit, abbreviated};

use super::confidence::RepetitionPlan;
use super::ends::BisectRequest;
use super::graph::{Graph, Next, steps};
use super::report::Outcome;
use super::state::State;
use super::step::{BisectStep, CommitResult, CommitRole, Mark};
use crate::error::Error;
use crate::guest::escape::escape;
use crate::ui::Ui;

/// Judges commits.
pub(super) trait Commits {
    /// Judges a commit; `clean` builds it from scratch.
    async fn judge(&mut self, commit: &Commit, clean: bool) -> Result<CommitResult, Error>;
}

pub(super) struct Search<'a, C> {
    request: &'a BisectRequest<'a>,
    graph: Graph<'a>,
    pub(super) judge: C,
    pub(super) state: State,
    ui: &'a Ui,
}

impl<'a, C: Commits> Search<'a, C> {
    pub(super) fn new(
        request: &'a BisectRequest<'a>,
        judge: C,
        state: State,
        ui: &'a Ui,
    ) -> Search<'a, C> {
        Search {
            request,
            graph: Graph::new(request.repository, request.first_parent),
            judge,
            state,
            ui,
        }
    }

    /// Prints how long it may take, before anything long begins.
    pub(super) fn announce(&self, plan: Option<RepetitionPlan>) -> Result<(), Error> {
        let BisectRequest { good, bad, .. } = self.request;
        let good = std::slice::from_ref(&good.id);
        let count = self.graph.count(&bad.id, good)?;
        let steps = steps(count);
        self.ui.say(&format!(
            "{count} commits after {} up to {}: both ends, then about {steps} steps",
            abbreviated(&self.request.good.id),
            abbreviated(&bad.id)
        ));
        let resumed = self.state.steps().len();
        if resumed > 0 {
            self.ui.say(&format!(
                "resuming after {resumed} judged commits (--restart discards them)"
            ));
        }
        if let Some(plan) = plan {
            self.ui.say(&plan.to_string());
            let all = plan
                .target
                .confidence
                .powi(i32::try_from(steps).unwrap_or(i32::MAX));
            self.ui.say(&format!(
                "the probability that all {steps} steps are right is {all:.3}"
            ));
        }
        if resumed == 0 {
            let guess = spoken(estimate(steps, None));
            self.ui.say(&format!(
                "rough estimate: {guess}, with a first kernel that is built from scratch"
            ));
        }
        Ok(())
    }

    /// Judges commits until there is an answer, which is returned with the clean builds that
    /// verify it.
    pub(super) async fn search(&mut self) -> Result<(Outcome, Vec<BisectStep>), Error> {
        let none = Vec::new();
        let request = self.request;
        let (mut good, mut bad) = (vec![request.good.id.clone()], request.bad.id.clone());
        let end = self.step(&good[0], CommitRole::GoodEnd, false).await?;
        if end.result.mark != Mark::Good {
            return Ok((Outcome::end(&end), none));
        }
        let end = self.step(&bad, CommitRole::BadEnd, false).await?;
        if end.result.mark != Mark::Bad {
            return Ok((Outcome::end(&end), none));
        }
        self.announce_rest(&bad, &good)?;
        let mut skipped = BTreeSet::new();
        let outcome = loop {
            let next = self.graph.next(&bad, &good, &skipped)?;
            match next {
                Next::Found => break Outcome::Found { commit: bad },
                Next::OnlySkipped(mut rest) => {
                    rest.push(bad);
                    break Outcome::Range { commits: rest };
                }
                Next::Judge(id) => {
                    let step = self.step(&id, CommitRole::Search, false).await?;
                    match step.result.mark {
                        Mark::Good => good.push(id),
                        Mark::Bad => bad = id,
                        Mark::Skip => {
                            skipped.insert(id);
                        }
                    }
                }
            }
        };
        let Outcome::Found { commit } = &outcome else {
            return Ok((outcome, none));
        };
        if !self.request.verify {
            return Ok((outcome, none));
        }
        self.verify(commit.clone()).await
    }

    /// Judges the answer and its parent again, built from scratch, so that no stale object file
    /// of the search can be in them.
    async fn verify(&mut self, commit: String) -> Result<(Outcome, Vec<BisectStep>), Error> {
        let mut verified = Vec::new();
        let mut expected = vec![(commit.clone(), Mark::Bad)];
        if let Some(parent) = self.graph.parent(&commit)? {
            expected.push((parent, Mark::Good));
        }
        for (id, mark) in expected {
            let step = self.step(&id, CommitRole::Verification, true).await?;
            let as_found = step.result.mark == mark;
            verified.push(step);
            if !as_found {
                return Ok((Outcome::Unverified { commit }, verified));
            }
        }
        Ok((Outcome::Found { commit }, verified))
    }

    /// Judges a commit, unless an earlier step did.
    async fn step(&mut self, id: &str, role: CommitRole, clean: bool) -> Result<BisectStep, Error> {
        if let Some(step) = self.state.find(id, clean) {
            return Ok(step.clone());
        }
        let repository = self.request.repository;
        let commit = repository.commit(id)?;
        self.ui.say(&format!(
            "{} {}",
            match role {
                CommitRole::GoodEnd => "judging the good end",
                CommitRole::BadEnd => "judging the bad end",
                CommitRole::Search => "judging",
                CommitRole::Verification => "verifying with a clean build",
            },
            escape(commit.shown().as_bytes())
        ));
        let result = self.judge.judge(&commit, clean).await?;
        let step = BisectStep {
            role,
            commit: commit.id,
            subject: commit.subject,
            clean,
            result,
        };
        self.ui.say(&format!(
            "  {}: {} (build {:.1} s, guests {:.1} s)",
            step.result.mark,
            escape(step.result.why.as_bytes()),
            step.result.build_seconds,
            step.result.guest_seconds
        ));
        self.state.add(step.clone())?;
        Ok(step)
    }

    fn announce_rest(&self, bad: &str, good: &[String]) -> Result<(), Error> {
        let left = self.graph.count(bad, good)?;
        let steps = steps(left);
        // Unlike the first build, the latest one is like those to come.
        let last = self.state.steps().iter().rev().find(|step| !step.clean);
        let seconds = last.map(|step| step.result.build_seconds + step.result.guest_seconds);
        self.ui.say(&format!(
            "{left} commits left, about {steps} steps, about {}",
            spoken(estimate(steps, seconds))
        ));
        Ok(())
    }
}

/// How long this many steps may take. The default assumes that a full build takes ten minutes
/// of one processor and each step after it one minute.
fn estimate(steps: u32, measured: Option<f64>) -> Duration {
    let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    #[expect(
        clippy::cast_precision_loss,
        reason = "a number of processors is small"
    )]
    let processors = processors as f64;
    let seconds = match measured {
        Some(seconds) => seconds * f64::from(steps),
        None => 600.0 / processors + 60.0 / processors * f64::from(steps + 1),
    };
    Duration::from_secs_f64(seconds)
}

fn spoken(time: Duration) -> String {
    match time.as_secs() {
        seconds @ 0..100 => format!("{seconds} s"),
        seconds @ 100..6000 => format!("{} min", seconds.div_ceil(60)),
        seconds => format!(
            "{:.1} h",
            Duration::from_secs(seconds).as_secs_f64() / 3600.0
        ),
    }
}
