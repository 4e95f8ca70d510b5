//! Checks that records are those of one run of one plan.

use std::collections::BTreeSet;

use numalab_protocol::CONTRACT;
use numalab_protocol::plan::Plan;
use numalab_protocol::record::{Edge, Record};

/// Why the records cannot be those of one run of this plan: they belong to another plan, are
/// out of order, or appear twice.
pub(super) fn strange(plan: &Plan, records: &[Record]) -> Option<String> {
    let mut edges = BTreeSet::new();
    for (index, record) in records.iter().enumerate() {
        match record {
            Record::Ready { contract, .. } if *contract != CONTRACT => {
                return Some(format!(
                    "the guest uses version {contract} of the protocol, not {CONTRACT}"
                ));
            }
            Record::Start { seed, .. } if *seed != plan.seed => {
                return Some(format!("the guest ran seed {seed}, not {}", plan.seed));
            }
            Record::Snapshot { measure, edge, .. } => {
                if !plan
                    .steps
                    .iter()
                    .any(|step| step.measure.as_ref() == Some(measure))
                {
                    return Some(format!("the plan has no measurement {measure:?}"));
                }
                if !edges.insert((measure, *edge == Edge::End)) {
                    return Some(format!("measurement {measure:?} was read twice"));
                }
            }
            Record::End { .. } if index + 1 < records.len() => {
                return Some("there are records after the last one".into());
            }
            _ => {}
        }
        let first = [
            matches!(record, Record::Ready { .. }),
            matches!(record, Record::Window { .. }),
            matches!(record, Record::Start { .. }),
        ];
        // An error may come instead of any of them, and then the end.
        let broken_off = matches!(record, Record::Error { .. } | Record::End { .. });
        if (index < 3 && !first[index] && !broken_off) || (index >= 3 && first.contains(&true)) {
            return Some(format!("record {index} is out of order"));
        }
        if broken_off && index < 3 {
            return None;
        }
    }
    None
}
