//! How many runs a step needs in live mode, where a single run proves nothing.
//!
//! A bad kernel fails at least a share of its runs (the rate), a good one at most another share
//! (the noise). With a plan of `runs` runs a kernel is good if at most `tolerated` of them fail.
//! The probability of either error, a bad kernel marked good or a good one marked bad, is then at
//! most one minus the confidence.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The longest plan in which a good kernel may fail.
const MOST: u32 = 10_000;

/// The assumed failure rates, and how certain a step must be.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ConfidenceTarget {
    /// The share of its runs that a bad kernel fails at least, above 0 and up to 1.
    pub rate: f64,
    /// The share of its runs that a good kernel fails at most, from 0 and below the rate.
    pub noise: f64,
    /// The least probability that a mark is right, above 0 and below 1.
    pub confidence: f64,
}

/// Why there is no plan.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum NoPlan {
    /// A number is out of its range.
    #[error("{what} is {value}, but must be {range}")]
    Range {
        /// Which.
        what: &'static str,
        /// Its value.
        value: f64,
        /// What is allowed.
        range: &'static str,
    },
    /// The rates are too close.
    #[error(
        "good and bad kernels are too much alike: even {MOST} runs cannot distinguish a failure \
         rate of {rate} from one of {noise} with confidence {confidence}"
    )]
    Alike {
        /// The bad kernel's rate.
        rate: f64,
        /// The good kernel's.
        noise: f64,
        /// The confidence.
        confidence: f64,
    },
}

/// How a step is decided.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct RepetitionPlan {
    /// What the plan is for.
    pub target: ConfidenceTarget,
    /// How often the scenario runs.
    pub runs: u32,
    /// How many failures a good kernel may have.
    pub tolerated: u32,
}

/// The decision after some runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// Enough runs, few enough failures.
    Good,
    /// Too many failures, whatever the remaining runs give.
    Bad,
    /// How many more runs are needed.
    More(u32),
}

impl ConfidenceTarget {
    /// The shortest plan that reaches the target.
    ///
    /// # Errors
    /// A number is out of its range, or the two rates are too close.
    pub fn plan(self) -> Result<RepetitionPlan, NoPlan> {
        let ConfidenceTarget {
            rate,
            noise,
            confidence,
        } = self;
        for (what, value, range, is_allowed) in [
            (
                "the rate",
                rate,
                "more than 0 and at most 1",
                rate > 0.0 && rate <= 1.0,
            ),
            (
                "the noise",
                noise,
                "at least 0 and less than 1",
                (0.0..1.0).contains(&noise),
            ),
            (
                "the confidence",
                confidence,
                "more than 0 and less than 1",
                confidence > 0.0 && confidence < 1.0,
            ),
        ] {
            if !is_allowed {
                return Err(NoPlan::Range { what, value, range });
            }
        }
        let alike = NoPlan::Alike {
            rate,
            noise,
            confidence,
        };
        if noise >= rate {
            return Err(alike);
        }
        let wrong = 1.0 - confidence;
        if noise == 0.0 {
            // One failure is proof, so only a bad kernel that never fails is marked wrongly: the
            // probability of that is (1 - rate)^runs.
            let runs = match rate {
                1.0 => 1.0,
                rate => (wrong.ln() / (-rate).ln_1p()).ceil().max(1.0),
            };
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "a whole number from 1, and compared with the greatest first"
            )]
            return match runs <= f64::from(u32::MAX) {
                true => Ok(RepetitionPlan {
                    target: self,
                    runs: runs as u32,
                    tolerated: 0,
                }),
                false => Err(alike),
            };
        }
        let (mut runs, mut tolerated) = (1, 0);
        while runs <= MOST {
            // The probability of a bad kernel that fails no more, and of a good one that fails more.
            let missed = at_most(tolerated, runs, rate);
            let blamed = 1.0 - at_most(tolerated, runs, noise);
            match (missed <= wrong, blamed <= wrong) {
                (true, true) => {
                    return Ok(RepetitionPlan {
                        target: self,
                        runs,
                        tolerated,
                    });
                }
                // More failures must be tolerated, which in turn needs more runs.
                (_, false) => tolerated += 1,
                (false, true) => runs += 1,
            }
            if tolerated >= runs {
                runs = tolerated + 1;
            }
        }
        Err(alike)
    }
}

impl RepetitionPlan {
    /// Decides after some runs, of which some failed.
    pub fn decide(&self, runs: u32, failures: u32) -> Decision {
        if failures > self.tolerated {
            Decision::Bad
        } else if runs >= self.runs {
            Decision::Good
        } else {
            Decision::More(self.runs - runs)
        }
    }
}

impl fmt::Display for RepetitionPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ConfidenceTarget {
            rate,
            noise,
            confidence,
        } = self.target;
        let failures = match self.tolerated {
            0 => "one failure".to_owned(),
            tolerated => format!("{} failures", tolerated + 1),
        };
        write!(
            f,
            "a commit is good after {} runs with at most {} failed, and bad after {failures}: each \
             mark is right with probability {confidence} if a bad kernel fails at least {rate} and \
             a good one at most {noise} of its runs",
            self.runs, self.tolerated
        )
    }
}

/// The probability of at most `most` failures in `runs` runs that fail with `rate` each.
fn at_most(most: u32, runs: u32, rate: f64) -> f64 {
    if rate <= 0.0 || most >= runs {
        return 1.0;
    }
    if rate >= 1.0 {
        return 0.0;
    }
    // In logarithms, since the terms of long plans underflow.
    let (yes, no) = (rate.ln(), (1.0 - rate).ln());
    let mut choices = 0.0;
    let mut sum = 0.0;
    for count in 0..=most {
        if count > 0 {
            choices += f64::from(runs - count + 1).ln() - f64::from(count).ln();
        }
        sum += (choices + f64::from(count) * yes + f64::from(runs - count) * no).exp();
    }
    sum.min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(rate: f64, noise: f64, confidence: f64) -> RepetitionPlan {
        ConfidenceTarget {
            rate,
            noise,
            confidence,
        }
        .plan()
        .unwrap()
    }

    #[test]
    fn rare_failures_need_the_known_number_of_clean_runs() {
        // -n ln(1-P) for one failure in n runs: about 3n for 95 %, 9.2n for 99.99 %.
        for (n, confidence) in [(1000.0, 0.95), (1000.0, 0.9999), (20.0, 0.99), (300.0, 0.5)] {
            let plan = plan(1.0 / n, 0.0, confidence);
            let expected: f64 = -n * f64::ln(1.0 - confidence);
            let ratio = f64::from(plan.runs) / expected;
            assert!((0.95..=1.01).contains(&ratio), "{n} {confidence}: {plan:?}");
            assert_eq!(plan.tolerated, 0);
            assert_eq!(plan.decide(plan.runs, 0), Decision::Good);
            assert_eq!(plan.decide(plan.runs - 1, 0), Decision::More(1));
            assert_eq!(plan.decide(1, 1), Decision::Bad);
        }
    }

    #[test]
    fn what_fails_each_time_needs_one_run() {
        assert_eq!(plan(1.0, 0.0, 0.999).runs, 1);
    }

    #[test]
    fn a_noisy_good_kernel_is_not_blamed() {
        let plan = plan(0.6, 0.1, 0.99);
        assert!(plan.tolerated > 0);
        let blamed = 1.0 - at_most(plan.tolerated, plan.runs, 0.1);
        let missed = at_most(plan.tolerated, plan.runs, 0.6);
        assert!(blamed <= 0.01 && missed <= 0.01, "{plan:?}");
        // It is the shortest: one run less serves neither number of failures.
        for tolerated in 0..plan.runs {
            let runs = plan.runs - 1;
            let serves = at_most(tolerated, runs, 0.6) <= 0.01
                && 1.0 - at_most(tolerated, runs, 0.1) <= 0.01;
            assert!(!serves, "{tolerated} of {runs}");
        }
    }

    #[test]
    fn what_cannot_be_told_apart_is_refused() {
        for (rate, noise) in [(0.5, 0.5), (0.3, 0.4), (0.101, 0.1)] {
            let wish = ConfidenceTarget {
                rate,
                noise,
                confidence: 0.999_999,
            };
            assert!(
                matches!(wish.plan(), Err(NoPlan::Alike { .. })),
                "{rate} {noise}"
            );
        }
        for (rate, noise, confidence) in [
            (0.0, 0.0, 0.9),
            (1.1, 0.0, 0.9),
            (0.5, -0.1, 0.9),
            (0.5, 0.0, 1.0),
            (f64::NAN, 0.0, 0.9),
            (0.5, f64::NAN, 0.9),
            (0.5, 0.0, f64::NAN),
        ] {
            let wish = ConfidenceTarget {
                rate,
                noise,
                confidence,
            };
            assert!(matches!(wish.plan(), Err(NoPlan::Range { .. })));
        }
    }

    #[test]
    fn binomial_sums_are_right() {
        // 1 - (1/2)^3, and 1/8 + 3/8.
        assert!((at_most(2, 3, 0.5) - 0.875).abs() < 1e-12);
        assert!((at_most(1, 3, 0.5) - 0.5).abs() < 1e-12);
    }
}
