//! `numalab doctor`.

use super::context::Context;
use super::exit::{Failure, GOOD, INCONCLUSIVE};
use crate::jobs::doctor::{State, examine};

pub(super) const HELP: &str = "\
Exit codes: 0 nothing is missing, 3 something is missing.

Example: numalab doctor";

pub(super) fn doctor(context: &Context) -> Result<u8, Failure> {
    let findings = examine();
    context.print(&findings, || {
        let mut text = String::new();
        for finding in &findings {
            let state = match finding.state {
                State::Good => "good",
                State::Note => "note",
                State::Missing => "MISSING",
            };
            let mut lines = finding.found.lines();
            let first = lines.next().unwrap_or_default();
            text.push_str(&format!("{state:8} {:21} {first}\n", finding.name));
            for line in lines {
                text.push_str(&format!("{:31}{}\n", "", line.trim_start()));
            }
        }
        text
    })?;
    let is_missing = |state| state == State::Missing;
    Ok(match findings.iter().any(|found| is_missing(found.state)) {
        true => INCONCLUSIVE,
        false => GOOD,
    })
}
