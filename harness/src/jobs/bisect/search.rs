//! The search: ends, steps, answer, verification.
//!
//! It knows no kernels: whoever judges commits is handed in.

use std::collections::BTreeSet;
use std::time::Duration;

use numalab_kernels::source::repository::abbreviated;

use super::answer::Answer;
use super::confidence::RepetitionPlan;
use super::graph::{Graph, Next, steps};
use super::report::Outcome;
use super::state::State;
use super::{BisectRequest, Commits, Role, Step, fault};
use crate::error::Error;
use crate::ui::Ui;

/// A search.
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

    /// Says how long it may take, before anything long begins.
    pub(super) fn announce(&self, plan: Option<RepetitionPlan>) -> Result<(), Error> {
        let BisectRequest { good, bad, .. } = self.request;
        let good = std::slice::from_ref(&good.id);
        let count = self.graph.count(&bad.id, good).map_err(fault)?;
        let steps = steps(count);
        self.ui.say(&format!(
            "{count} commits from {} (not included) to {}: about {steps} steps, and both ends first",
            abbreviated(&self.request.good.id),
            abbreviated(&bad.id)
        ));
        let resumed = self.state.steps().len();
        if resumed > 0 {
            self.ui.say(&format!(
                "going on after {resumed} judged commits (--restart begins anew)"
            ));
        }
        if let Some(plan) = plan {
            self.ui.say(&plan.to_string());
            let all = plan
                .wish
                .confidence
                .powi(i32::try_from(steps).unwrap_or(i32::MAX));
            self.ui.say(&format!(
                "all {steps} steps are right with a probability of {all:.3}"
            ));
        }
        if resumed == 0 {
            let guess = spoken(estimate(steps, None));
            self.ui.say(&format!(
                "about {guess} if the first kernel is built from nothing, as a guess until both \
                 ends are judged"
            ));
        }
        Ok(())
    }

    /// Judges commits until the answer is there; with it, the clean builds that verify it.
    pub(super) async fn search(&mut self) -> Result<(Outcome, Vec<Step>), Error> {
        let none = Vec::new();
        let (mut good, mut bad) = (
            vec![self.request.good.id.clone()],
            self.request.bad.id.clone(),
        );
        let end = self.step(&good[0].clone(), Role::GoodEnd, false).await?;
        if end.judged.answer != Answer::Good {
            return Ok((Outcome::end(&end), none));
        }
        let end = self.step(&bad.clone(), Role::BadEnd, false).await?;
        if end.judged.answer != Answer::Bad {
            return Ok((Outcome::end(&end), none));
        }
        if !self.graph.is_ancestor(&good[0], &bad).map_err(fault)? {
            // As git does: what is said of the good end must hold where they have parted.
            for base in self.graph.merge_bases(&good[0].clone(), &bad) {
                let step = self.step(&base, Role::MergeBase, false).await?;
                if step.judged.answer != Answer::Good {
                    return Ok((Outcome::end(&step), none));
                }
                good.push(base);
            }
        }
        self.say_rest(&bad, &good)?;
        let mut unknown = BTreeSet::new();
        let outcome = loop {
            let next = self.graph.next(&bad, &good, &unknown).map_err(fault)?;
            match next {
                Next::Found => break Outcome::Found { commit: bad },
                Next::Among(mut rest) => {
                    rest.push(bad);
                    break Outcome::Range { commits: rest };
                }
                Next::Judge(id) => {
                    let step = self.step(&id, Role::Search, false).await?;
                    match step.judged.answer {
                        Answer::Good => good.push(id),
                        Answer::Bad => bad = id,
                        Answer::CannotJudge => {
                            unknown.insert(id);
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

    /// Builds the answer and its parent from nothing. An object that was stale in the search
    /// cannot be in these.
    async fn verify(&mut self, commit: String) -> Result<(Outcome, Vec<Step>), Error> {
        let mut verified = Vec::new();
        let mut expected = vec![(commit.clone(), Answer::Bad)];
        if let Some(parent) = self.graph.parent(&commit).map_err(fault)? {
            expected.push((parent, Answer::Good));
        }
        for (id, answer) in expected {
            let step = self.step(&id, Role::Verification, true).await?;
            let as_found = step.judged.answer == answer;
            verified.push(step);
            if !as_found {
                return Ok((Outcome::Unverified { commit }, verified));
            }
        }
        Ok((Outcome::Found { commit }, verified))
    }

    /// Judges a commit, unless that was done.
    async fn step(&mut self, id: &str, role: Role, clean: bool) -> Result<Step, Error> {
        if let Some(step) = self.state.find(id, clean) {
            return Ok(step.clone());
        }
        let repository = self.request.repository;
        let commit = repository.commit(id).map_err(fault)?;
        self.ui.say(&format!(
            "{} {}{}",
            match role {
                Role::GoodEnd => "the good end",
                Role::BadEnd => "the bad end",
                Role::MergeBase => "the merge base",
                Role::Search => "judging",
                Role::Verification => "verifying",
            },
            commit.shown(),
            if clean { ", from a clean build" } else { "" }
        ));
        let judged = self.judge.judge(&commit, clean).await?;
        let step = Step {
            role,
            commit: commit.id,
            subject: commit.subject,
            clean,
            judged,
        };
        self.ui.say(&format!(
            "  {}: {} (build {:.1} s, guests {:.1} s)",
            step.judged.answer,
            step.judged.why,
            step.judged.build_seconds,
            step.judged.guest_seconds
        ));
        self.state.add(step.clone())?;
        Ok(step)
    }

    fn say_rest(&self, bad: &str, good: &[String]) -> Result<(), Error> {
        let left = self.graph.count(bad, good).map_err(fault)?;
        let steps = steps(left);
        // The second end is a build like the others to come.
        let last = self.state.steps().iter().rev().find(|step| !step.clean);
        let seconds = last.map(|step| step.judged.build_seconds + step.judged.guest_seconds);
        self.ui.say(&format!(
            "{left} commits left, about {steps} steps, about {}",
            spoken(estimate(steps, seconds))
        ));
        Ok(())
    }
}

/// How long so many steps may take. Without one that was measured: as on a machine where a
/// whole build takes ten minutes of one processor and a further step half a minute.
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
