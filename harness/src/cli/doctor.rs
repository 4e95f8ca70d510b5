//! `numalab doctor`.

use super::{Failure, GOOD, INCONCLUSIVE, print};
use crate::jobs::doctor::{State, examine};

pub(super) fn doctor(json: bool) -> Result<u8, Failure> {
    let findings = examine();
    if json {
        print(&format!("{}\n", super::json(&findings)?))?;
    } else {
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
        print(&text)?;
    }
    let missing = findings
        .iter()
        .any(|finding| finding.state == State::Missing);
    Ok(if missing { INCONCLUSIVE } else { GOOD })
}
