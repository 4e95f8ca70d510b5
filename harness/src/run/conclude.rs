//! From what came of a run to its report.

use std::collections::BTreeMap;

use super::{Ran, Request, Stand};
use crate::fault;
use crate::folder::RunFolder;
use crate::machine::outcome::End;
use crate::observe::{Measurement, Observations};
use crate::report::{Promise, RunReport, SCHEMA, Times, text};
use crate::unclean;
use crate::verdict::{Unclean, Verdict, counters, judge};

/// How many of the console's last lines a report shows.
const TAIL: usize = 12;

impl Stand {
    pub(super) fn report(&self, request: &Request<'_>, ran: Ran, folder: &RunFolder) -> RunReport {
        let Ran {
            outcome,
            life,
            times,
            remembered,
            promise,
        } = ran;
        let records = outcome.as_ref().map_or(&[][..], |outcome| &outcome.records);
        let plan = request.plan();
        let seen = Observations::new(&plan, records);
        let unclean = match &outcome {
            Ok(outcome) => unclean::of_outcome(outcome, self.checked.live),
            Err(error) => Some(Unclean {
                certain: false,
                what: text::sentence(error),
            }),
        };
        let ending = match &outcome {
            Ok(outcome) => format!("{}, in stage {}", outcome.end, outcome.stage),
            Err(error) => text::sentence(error),
        };
        // A guest that broke off, records that cannot be read, and two answers of one run say
        // nothing by counters.
        let is_broken = matches!(promise, Some(Promise::Broken { .. }));
        let counters = match &outcome {
            Ok(outcome)
                if outcome.is_whole() && !is_broken && seen.end.is_some_and(|end| end.complete) =>
            {
                Some(counters(request.scenario, &seen))
            }
            _ => None,
        };
        let faults = outcome.as_ref().map(fault::of_outcome);
        let host = match &outcome {
            Ok(outcome) => matches!(outcome.end, End::DiskFull { .. }).then(|| ending.clone()),
            Err(_) => Some(ending.clone()),
        };
        let mut judgement = judge(request.scenario, &seen, unclean);
        if let Some(Promise::Broken { what, .. }) = &promise {
            // Neither of two answers is one.
            judgement.doubt(format!(
                "exact mode's promise is broken, two runs of the same inputs differ: {what}"
            ));
        }
        let quiet = judgement.verdict != Verdict::Inconclusive;
        let console_tail = match &outcome {
            Ok(outcome) if !quiet && !outcome.is_whole() => {
                let first = outcome.last_lines.len().saturating_sub(TAIL);
                outcome.last_lines[first..].to_vec()
            }
            _ => Vec::new(),
        };
        let changed = |measurement: &Measurement| -> BTreeMap<String, i64> {
            measurement
                .vmstat()
                .into_iter()
                .filter(|(_, change)| *change != 0)
                .collect()
        };
        RunReport {
            schema: SCHEMA,
            inputs: self.inputs(request),
            life,
            remembered,
            promise,
            judgement,
            counters,
            faults: faults.unwrap_or_default(),
            tainted: seen.end.map(|end| end.tainted),
            boot_end_us: fault::boot_end_us(records),
            ending,
            host,
            measurements: seen
                .measures
                .iter()
                .map(|(name, measurement)| (name.clone(), changed(measurement)))
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
}
