//! What a guest's end and its console say against its kernel.

use std::cmp::Reverse;

use crate::machine::deadline::{Stage, Waited};
use crate::machine::outcome::{End, Outcome};
use crate::machine::trouble::Severity;
use crate::verdict::Unclean;

/// The worst that can be said of a guest, if anything. In live mode what a busy host can
/// bring about is not certain.
pub(crate) fn of_outcome(outcome: &Outcome, live: bool) -> Option<Unclean> {
    let end = of_end(&outcome.end, live);
    let troubles = || {
        outcome
            .troubles
            .iter()
            .filter(|trouble| trouble.severity >= Severity::Warning)
    };
    // A message says more than the end that it leads to; the worst one, the first of these.
    let worst = troubles().max_by_key(|trouble| (trouble.severity, Reverse(trouble.line)));
    let message = worst.map(|worst| Unclean {
        certain: troubles().any(|trouble| !(live && trouble.kind.may_be_the_hosts())),
        what: format!("the kernel printed: {}", worst.message),
    });
    match (message, end) {
        (Some(message), Some(end)) => Some(Unclean {
            certain: message.certain || end.certain,
            what: format!("{}; {}", end.what, message.what),
        }),
        (message, end) => message.or(end),
    }
}

fn of_end(end: &End, live: bool) -> Option<Unclean> {
    let certain = match end {
        End::PowerOff => return None,
        End::Panic | End::Reset => true,
        // How long a step takes is the plan's doing as well as the kernel's.
        End::Stuck {
            stage: Stage::Step(_),
            ..
        } => false,
        // In exact mode QEMU's CPU time is the guest's own work, whatever the host does.
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
    Some(Unclean {
        certain,
        what: end.to_string(),
    })
}
