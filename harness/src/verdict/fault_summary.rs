//! The faults of a guest: how it ended, and what its console reports.

use std::cmp::Reverse;

use crate::guest::deadline::Waited;
use crate::guest::fault_kind::Severity;
use crate::guest::outcome::{End, Outcome};
use crate::verdict::FaultSummary;

/// The worst fault of a guest, if any. In live mode, a fault that a busy host can cause is not
/// certain.
pub(crate) fn of_outcome(outcome: &Outcome, live: bool) -> Option<FaultSummary> {
    let end = of_end(&outcome.end, live);
    let console_faults = || {
        outcome
            .console_faults
            .iter()
            .filter(|console_fault| console_fault.severity >= Severity::Warning)
    };
    // A message says more than the end that it leads to; the worst one, the first of these.
    let worst = console_faults()
        .max_by_key(|console_fault| (console_fault.severity, Reverse(console_fault.line)));
    let message = worst.map(|worst| FaultSummary {
        certain: console_faults().any(|console_fault| {
            let kind = console_fault.kind;
            !(kind.is_doubtful() || live && kind.may_be_the_hosts())
        }),
        what: format!("the kernel printed: {}", worst.message),
    });
    match (message, end) {
        (Some(message), Some(end)) => Some(FaultSummary {
            certain: message.certain || end.certain,
            what: format!("{}; {}", end.what, message.what),
        }),
        (message, end) => message.or(end),
    }
}

fn of_end(end: &End, live: bool) -> Option<FaultSummary> {
    let certain = match end {
        End::PowerOff => return None,
        End::Panic | End::Reset => true,
        // In exact mode QEMU's CPU time is the guest's own work, whatever the host does. The
        // limits of a step are a multiple of what its plan asks for.
        End::Stuck {
            waited: Waited::Silent { .. } | Waited::Total { .. },
            ..
        } => !live,
        End::TooMuchOutput { path, .. } => path.file_name() == Some("console.log"),
        End::Stuck {
            waited: Waited::Wall { .. },
            ..
        }
        | End::QemuExit { .. }
        | End::InternalError { .. }
        | End::Records(_)
        | End::Monitor(_)
        | End::DiskFull { .. }
        | End::Dismissed
        | End::Cancelled => false,
    };
    Some(FaultSummary {
        certain,
        what: end.to_string(),
    })
}
