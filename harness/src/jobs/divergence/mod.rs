//! First divergence: where two kernels begin to do something else with one scenario.
//!
//! Both run it once more with the trace events of NUMA balancing switched on, which changes
//! their instruction streams; so the counters of these runs are used for nothing else, and
//! what differs is a place to look at and no verdict.

mod normal;
pub mod text;

use std::collections::BTreeSet;

use camino::Utf8PathBuf;
use numalab_protocol::Record;
use numalab_protocol::plan::Watch;
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use crate::error::Error;
use crate::error_chain::sentence;
use crate::jobs::comparison::TestMatrix;
use crate::report::{KernelId, RunReport};
use crate::run::pool;
use crate::run::{RunRequest, Runner};
use crate::ui::Ui;
use crate::verdict::Verdict;
use normal::Line;

/// The trace events of NUMA balancing and of the migrations that it causes
/// (`include/trace/events/sched.h`, `migrate.h`). No kernel has them all.
pub const EVENTS: [&str; 7] = [
    "sched:sched_move_numa",
    "sched:sched_stick_numa",
    "sched:sched_swap_numa",
    "sched:sched_skip_vma_numa",
    "sched:sched_skip_cpuset_numa",
    "migrate:mm_migrate_pages_start",
    "migrate:mm_migrate_pages",
];

/// Where two kernels part in one scenario.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Divergence {
    /// `suite/scenario`.
    pub scenario: String,
    /// What was found.
    pub found: DivergencePoint,
    /// Events that one of the kernels does not have.
    pub missing: Vec<String>,
    /// The runs' folders: the base's, then the patched kernel's.
    pub folders: [Utf8PathBuf; 2],
}

/// What the comparison of two streams of events gave.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DivergencePoint {
    /// Every event is the same.
    Same {
        /// How many there are.
        events: usize,
    },
    /// An event differs.
    Differs {
        /// The measurement in which it happens.
        measure: String,
        /// How many events of both are the same before it.
        same: usize,
        /// The last of these.
        after: Option<String>,
        /// The base's event; `None` if it has no more in this measurement.
        base: Option<String>,
        /// The patched kernel's event, likewise.
        patched: Option<String>,
    },
    /// It cannot be told.
    Unknown {
        /// Why.
        because: String,
    },
}

/// Runs the scenarios on both kernels with trace events, and compares these.
///
/// # Errors
/// A run folder cannot be written, or a signal came.
pub async fn find(
    runner: &Runner,
    kernels: [&KernelId; 2],
    matrix: &TestMatrix<'_>,
    ui: &Ui,
    cancel: &CancellationToken,
) -> Result<Vec<Divergence>, Error> {
    let mut requests = Vec::new();
    for scenario in matrix.scenarios {
        for seed in matrix.seeds {
            for kernel in kernels {
                let (shift, append) = (matrix.shift, matrix.append);
                let request = RunRequest::new(scenario, kernel, *seed, shift, append)?;
                requests.push(request.watching(Watch {
                    events: EVENTS.map(str::to_owned).to_vec(),
                    ..Watch::default()
                }));
            }
        }
    }
    let reports = pool::run(runner, &requests, matrix.jobs, ui, cancel).await?;
    Ok(reports
        .chunks_exact(2)
        .map(|pair| divergence(&pair[0], &pair[1]))
        .collect())
}

fn divergence(base: &RunReport, patched: &RunReport) -> Divergence {
    let (found, missing) = match (stream(base), stream(patched)) {
        (Ok(base), Ok(patched)) => compare(&base, &patched),
        (Err(because), _) | (_, Err(because)) => (DivergencePoint::Unknown { because }, Vec::new()),
    };
    Divergence {
        scenario: base.inputs.scenario.clone(),
        found,
        missing,
        folders: [base.folder.clone(), patched.folder.clone()],
    }
}

/// The events of one run.
#[derive(Debug, Default)]
struct Stream {
    recorded: BTreeSet<String>,
    missing: BTreeSet<String>,
    lines: Vec<Line>,
}

fn stream(report: &RunReport) -> Result<Stream, String> {
    let name = &report.inputs.kernel.name;
    if report.judgement.verdict == Verdict::Inconclusive {
        let reasons = report.judgement.reasons.join("; ");
        return Err(format!(
            "the traced run on {name} was not complete: {reasons}"
        ));
    }
    let records = crate::run::records(&report.folder).map_err(|error| sentence(&error))?;
    read(&records).map_err(|because| format!("{name}: {because}"))
}

fn read(records: &[Record]) -> Result<Stream, String> {
    let mut stream = Stream::default();
    let mut told = false;
    let mut events = Vec::new();
    for record in records {
        match record {
            Record::Trace {
                recorded,
                missing,
                lost,
            } => {
                if *lost > 0 {
                    return Err(format!(
                        "{lost} trace events were lost, so nothing is claimed"
                    ));
                }
                told = true;
                stream.recorded = recorded.iter().cloned().collect();
                stream.missing = missing.iter().cloned().collect();
            }
            Record::TraceEvents { events: more } => events.extend(more.iter().cloned()),
            _ => {}
        }
    }
    if !told {
        return Err("the guest told no trace events".into());
    }
    if stream.recorded.is_empty() {
        return Err("this kernel has none of the trace events".into());
    }
    stream.lines = normal::lines(records, &events);
    Ok(stream)
}

fn compare(base: &Stream, patched: &Stream) -> (DivergencePoint, Vec<String>) {
    let missing: BTreeSet<&String> = base.missing.union(&patched.missing).collect();
    let missing: Vec<String> = missing.into_iter().cloned().collect();
    // What one of them cannot tell is no difference.
    let names: BTreeSet<&str> = base
        .recorded
        .intersection(&patched.recorded)
        .filter_map(|event| event.split_once(':').map(|(_, name)| name))
        .collect();
    let common = |stream: &Stream| -> Vec<Line> {
        let lines = stream.lines.iter();
        lines
            .filter(|line| names.contains(line.name.as_str()))
            .cloned()
            .collect()
    };
    let (base, patched) = (common(base), common(patched));
    let same = base
        .iter()
        .zip(&patched)
        .take_while(|(one, other)| one == other)
        .count();
    let found = match (base.get(same), patched.get(same)) {
        (None, None) => DivergencePoint::Same { events: same },
        (one, other) => {
            // The measurement that is not over yet on one side is the one that differs.
            let first = match (one, other) {
                (Some(one), Some(other)) => one.at.min(other.at),
                (Some(line), None) | (None, Some(line)) => line.at,
                (None, None) => 0,
            };
            let here = |line: Option<&Line>| line.filter(|line| line.at == first).cloned();
            let (one, other) = (here(one), here(other));
            let measure = one.as_ref().or(other.as_ref());
            DivergencePoint::Differs {
                measure: measure.map(|line| line.measure.clone()).unwrap_or_default(),
                same,
                after: same.checked_sub(1).map(|last| base[last].text.clone()),
                base: one.map(|line| line.text),
                patched: other.map(|line| line.text),
            }
        }
    };
    (found, missing)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(lines: &[(usize, &str)]) -> Stream {
        Stream {
            recorded: ["sched:a".to_owned()].into(),
            missing: BTreeSet::new(),
            lines: lines
                .iter()
                .map(|(at, text)| Line {
                    at: *at,
                    measure: format!("m{at}"),
                    name: "a".into(),
                    text: (*text).into(),
                })
                .collect(),
        }
    }

    #[test]
    fn the_first_event_that_differs_is_found() {
        let base = stream(&[(0, "x"), (0, "y"), (1, "z")]);
        assert_eq!(compare(&base, &base).0, DivergencePoint::Same { events: 3 });
        let (found, _) = compare(&base, &stream(&[(0, "x"), (0, "w"), (1, "z")]));
        assert_eq!(
            found,
            DivergencePoint::Differs {
                measure: "m0".into(),
                same: 1,
                after: Some("x".into()),
                base: Some("y".into()),
                patched: Some("w".into()),
            }
        );
    }

    #[test]
    fn a_measurement_that_ends_earlier_is_where_they_part() {
        let base = stream(&[(0, "x"), (0, "y"), (1, "z")]);
        let (found, _) = compare(&base, &stream(&[(0, "x"), (1, "z")]));
        let DivergencePoint::Differs {
            measure,
            base,
            patched,
            ..
        } = found
        else {
            panic!("{found:?}");
        };
        assert_eq!(
            (measure.as_str(), base.as_deref(), patched),
            ("m0", Some("y"), None)
        );
    }

    #[test]
    fn lost_events_make_no_claim() {
        let records = [Record::Trace {
            recorded: vec!["sched:a".into()],
            missing: vec![],
            lost: 1,
        }];
        assert!(
            read(&records)
                .unwrap_err()
                .contains("1 trace events were lost")
        );
        assert!(read(&[]).is_err());
    }

    #[test]
    fn an_event_that_one_kernel_lacks_is_told_and_no_difference() {
        let base = stream(&[(0, "x")]);
        let mut patched = stream(&[(0, "x"), (0, "y")]);
        patched.lines[1].name = "b".into();
        patched.recorded.insert("sched:b".into());
        let mut without = base;
        without.missing.insert("sched:b".into());
        let (found, missing) = compare(&without, &patched);
        assert_eq!(found, DivergencePoint::Same { events: 1 });
        assert_eq!(missing, ["sched:b"]);
    }
}
