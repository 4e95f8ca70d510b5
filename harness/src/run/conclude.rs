//! Judges what came of a run, and writes its report.

use std::collections::BTreeMap;

use crate::error_chain::sentence;
use crate::guest::outcome::{End, Outcome};
use crate::report::{RunReport, SCHEMA};
use crate::run::folder::RunFolder;
use crate::run::request::RunRequest;
use crate::run::result::{DeterminismCheck, Ran, Times};
use crate::run::runner::Runner;
use crate::verdict::fault;
use crate::verdict::fault_summary;
use crate::verdict::observe::{Measurement, Observations};
use crate::verdict::{self, FaultSummary, Verdict};

/// How many of the console's last lines a report shows.
const TAIL: usize = 12;

pub(super) fn judge(
    runner: &Runner,
    request: &RunRequest<'_>,
    ran: Ran,
    folder: &RunFolder,
) -> RunReport {
    let Ran {
        outcome,
        started_from,
        times,
        cached,
        determinism,
    } = ran;
    let records = outcome.as_ref().map_or(&[][..], |outcome| &outcome.records);
    let plan = request.plan();
    let seen = Observations::new(&plan, records);
    let fault_summary = match &outcome {
        Ok(outcome) => fault_summary::of_outcome(outcome, runner.builder.live),
        Err(error) => Some(FaultSummary {
            certain: false,
            what: sentence(error),
        }),
    };
    let ending = match &outcome {
        Ok(outcome) => format!("{}, in stage {}", outcome.end, outcome.stage),
        Err(error) => sentence(error),
    };
    // A guest that broke off, records that cannot be read, and two answers of one run say
    // nothing by counters.
    let differs = matches!(determinism, Some(DeterminismCheck::Different { .. }));
    let counters = match &outcome {
        Ok(outcome)
            if outcome.is_whole() && !differs && seen.end.is_some_and(|end| end.complete) =>
        {
            Some(verdict::counters(request.scenario, &seen))
        }
        _ => None,
    };
    let faults = outcome.as_ref().map(fault::of_outcome);
    let host = match &outcome {
        Ok(outcome) => matches!(outcome.end, End::DiskFull { .. }).then(|| ending.clone()),
        Err(_) => Some(ending.clone()),
    };
    let host_suspected = match &outcome {
        Ok(outcome) if outcome.end.may_be_the_hosts(runner.builder.live) => Some(ending.clone()),
        _ => None,
    };
    let mut judgement = verdict::judge(request.scenario, &seen, fault_summary);
    if let Some(DeterminismCheck::Different { what, .. }) = &determinism {
        // Neither of two answers is one.
        judgement.doubt(format!(
            "determinism failure: two runs of the same inputs differ: {what}"
        ));
    }
    let console_tail = match &outcome {
        Ok(outcome) if judgement.verdict == Verdict::Inconclusive => console_tail(outcome),
        _ => Vec::new(),
    };
    RunReport {
        schema: SCHEMA,
        inputs: runner.inputs(request),
        started_from,
        cached,
        determinism,
        judgement,
        counters,
        faults: faults.unwrap_or_default(),
        tainted: seen.end.map(|end| end.tainted),
        boot_end_us: fault::boot_end_us(records),
        ending,
        host,
        host_suspected,
        measurements: seen
            .measures
            .iter()
            .map(|(name, measurement)| (name.clone(), changed(measurement)))
            .collect(),
        values: seen
            .values()
            .into_iter()
            .map(|(observable, value)| (observable.to_string(), value))
            .collect(),
        times: Times {
            guest_steps_ms: seen.work_ns / 1_000_000,
            ..times
        },
        facts: seen.facts,
        release: seen.release,
        console_tail,
        folder: folder.path().to_owned(),
    }
}

/// The last lines of the console of a guest that did not finish.
fn console_tail(outcome: &Outcome) -> Vec<String> {
    if outcome.is_whole() {
        return Vec::new();
    }
    let first = outcome.last_lines.len().saturating_sub(TAIL);
    outcome.last_lines[first..].to_vec()
}

/// The counters of `/proc/vmstat` that changed.
fn changed(measurement: &Measurement) -> BTreeMap<String, i64> {
    let changes = measurement.vmstat().into_iter();
    changes.filter(|(_, change)| *change != 0).collect()
}
