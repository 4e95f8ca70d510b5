//! A budget of seconds: which scenarios tell most for it.
//!
//! A scenario's worth is what it assertions: a point for each expectation, and five for each
//! function or file among its subjects that no scenario chosen before it is about. The one
//! with most worth per second is taken, again and again, as long as all that were taken end
//! within the budget, on the cores that there are. What is left out is told, and judged by
//! nobody.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::error::Error;
use crate::guest::durations::Basis;
use crate::report::LeftOut;
use crate::run::{RunRequest, Runner};
use crate::scenario::Scenario;

/// Points for a subject that is new.
const SUBJECT: u32 = 5;

/// What running a scenario costs and gives.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Offer<'a> {
    expectations: u32,
    subjects: BTreeSet<&'a str>,
    /// Its guests, each with its expected time; those that are cached take none.
    guests: Vec<Duration>,
}

/// What a budget allows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selection {
    /// The indices of the scenarios that are run, in their order.
    pub scenarios: Vec<usize>,
    /// The others.
    pub left_out: Vec<LeftOut>,
    /// How long the chosen ones are expected to take, on the cores that there are.
    pub expected: Duration,
}

/// Chooses scenarios for a budget. `requests` gives a scenario's runs.
///
/// # Errors
/// A run cannot be asked for, or no scenario fits into the budget.
pub fn select<'a>(
    runner: &Runner,
    scenarios: &'a [Scenario],
    budget: Duration,
    mut requests: impl FnMut(&'a Scenario) -> Result<Vec<RunRequest<'a>>, Error>,
) -> Result<Selection, Error> {
    let mut offers = Vec::new();
    let mut left_out = Vec::new();
    for scenario in scenarios {
        let (mut guests, mut basis) = (Vec::new(), Basis::Measured);
        for request in requests(scenario)? {
            let expected = runner.expected(&request);
            basis = basis.max(expected.basis);
            guests.push(match runner.is_cached(&request) {
                true => Duration::ZERO,
                false => expected.cpu,
            });
        }
        left_out.push(LeftOut {
            scenario: scenario.name.clone(),
            expected_ms: u64::try_from(guests.iter().sum::<Duration>().as_millis())
                .unwrap_or(u64::MAX),
            basis,
        });
        offers.push(Offer {
            expectations: u32::try_from(scenario.expectations.len()).unwrap_or(u32::MAX),
            subjects: scenario.subject.iter().map(String::as_str).collect(),
            guests,
        });
    }
    let cores = if runner.is_live() { 1 } else { runner.cores() };
    let (chosen, expected) = take(&offers, budget, cores);
    if chosen.is_empty()
        && let Some(shortest) = left_out.iter().min_by_key(|left| left.expected_ms)
    {
        return Err(Error::Budget {
            budget,
            shortest: shortest.to_string(),
        });
    }
    let mut index = 0..;
    left_out.retain(|_| index.next().is_some_and(|index| !chosen.contains(&index)));
    Ok(Selection {
        scenarios: chosen,
        left_out,
        expected,
    })
}

/// The best offers, in their order, and the time that they take.
fn take(offers: &[Offer<'_>], budget: Duration, cores: usize) -> (Vec<usize>, Duration) {
    let mut chosen: Vec<usize> = Vec::new();
    let (mut known, mut takes) = (BTreeSet::new(), Duration::ZERO);
    let mut rest: Vec<usize> = (0..offers.len()).collect();
    loop {
        let worth = |index: usize| {
            let offer = &offers[index];
            let new = offer.subjects.difference(&known).count();
            let new = u32::try_from(new).unwrap_or(u32::MAX);
            let points = offer
                .expectations
                .saturating_add(new.saturating_mul(SUBJECT));
            let seconds = offer.guests.iter().sum::<Duration>().as_secs_f64();
            // What takes no time comes first.
            f64::from(points) / seconds.max(1e-6)
        };
        // The first of the best.
        let best = rest.iter().copied().enumerate().reduce(|best, next| {
            if worth(next.1) > worth(best.1) {
                next
            } else {
                best
            }
        });
        let Some((place, index)) = best else {
            break;
        };
        rest.remove(place);
        let more: Vec<Duration> = chosen
            .iter()
            .chain([&index])
            .flat_map(|index| offers[*index].guests.iter().copied())
            .collect();
        let time = makespan(more, cores);
        if time <= budget {
            takes = time;
            chosen.push(index);
            known.extend(offers[index].subjects.iter().copied());
        }
    }
    chosen.sort_unstable();
    (chosen, takes)
}

/// How long guests take on so many cores, the longest first.
fn makespan(mut guests: Vec<Duration>, cores: usize) -> Duration {
    guests.sort_unstable_by(|one, other| other.cmp(one));
    let mut cores = vec![Duration::ZERO; cores.max(1)];
    for guest in guests {
        if let Some(least) = cores.iter_mut().min() {
            *least += guest;
        }
    }
    cores.into_iter().max().unwrap_or_default()
}

impl Selection {
    /// What is run and what is not, in a line each.
    pub fn describe(&self, budget: Duration) -> String {
        let all = self.scenarios.len() + self.left_out.len();
        let (chosen, budget) = (self.scenarios.len(), budget.as_secs());
        let takes = self.expected.as_secs_f64();
        let mut text = format!(
            "budget {budget} s: {chosen} of {all} scenarios, whose guests are expected to take {takes:.1} s"
        );
        for left in &self.left_out {
            text.push_str(&format!("\n  left out, and not judged: {left}"));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offer<'a>(expectations: u32, subjects: &[&'a str], seconds: &[u64]) -> Offer<'a> {
        Offer {
            expectations,
            subjects: subjects.iter().copied().collect(),
            guests: seconds.iter().copied().map(Duration::from_secs).collect(),
        }
    }

    fn chosen(offers: &[Offer<'_>], seconds: u64, cores: usize) -> Vec<usize> {
        take(offers, Duration::from_secs(seconds), cores).0
    }

    #[test]
    fn what_tells_most_per_second_is_taken_as_long_as_it_fits() {
        let offers = [
            offer(4, &["a"], &[9]),
            offer(4, &["b"], &[3]),
            offer(1, &["c"], &[2]),
            offer(1, &[], &[1]),
        ];
        assert_eq!(chosen(&offers, 15, 1), [0, 1, 2, 3]);
        assert_eq!(chosen(&offers, 6, 1), [1, 2, 3]);
        assert_eq!(chosen(&offers, 5, 1), [1, 2]);
        assert_eq!(chosen(&offers, 1, 1), [3]);
        assert_eq!(chosen(&offers, 0, 1), [0_usize; 0]);
        // Two cores take as much in half the time, and none is split.
        assert_eq!(chosen(&offers, 9, 2), [0, 1, 2, 3]);
        assert_eq!(chosen(&offers, 8, 2), [1, 2, 3]);
    }

    #[test]
    fn a_subject_counts_once() {
        let same = [
            offer(1, &["a"], &[2]),
            offer(1, &["a"], &[2]),
            offer(1, &["b"], &[3]),
        ];
        assert_eq!(chosen(&same, 5, 1), [0, 2]);
    }

    #[test]
    fn what_is_cached_costs_nothing() {
        let offers = [offer(1, &[], &[0, 0]), offer(9, &["a"], &[5])];
        assert_eq!(chosen(&offers, 0, 1), [0]);
    }

    #[test]
    fn what_is_left_out_is_told() {
        let selection = Selection {
            scenarios: vec![0],
            left_out: vec![LeftOut {
                scenario: "vma/late".into(),
                expected_ms: 6010,
                basis: Basis::OtherKernel,
            }],
            expected: Duration::from_millis(2500),
        };
        assert_eq!(
            selection.describe(Duration::from_secs(3)),
            "budget 3 s: 1 of 2 scenarios, whose guests are expected to take 2.5 s\n  left out, \
             and not judged: vma/late (6.1 s, as on another kernel)"
        );
    }
}
