//! What a guest's end and its console say against its kernel.

use crate::machine::deadline::Waited;
use crate::machine::outcome::{End, Outcome};
use crate::machine::trouble::Severity;
use crate::verdict::Unclean;

/// The worst that can be said of a guest, if anything. In live mode what a busy host can
/// bring about is not certain.
pub(crate) fn of_outcome(outcome: &Outcome, live: bool) -> Option<Unclean> {
    let end = of_end(&outcome.end, live);
    // A message says more than the end that it leads to.
    let message = outcome
        .troubles
        .iter()
        .filter(|trouble| trouble.severity >= Severity::Warning)
        .max_by_key(|trouble| (trouble.severity, std::cmp::Reverse(trouble.line)))
        .map(|trouble| Unclean {
            certain: !(live && trouble.kind.may_be_the_hosts()),
            what: format!("the kernel printed: {}", trouble.message),
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
        | End::Cancelled => false,
    };
    Some(Unclean {
        certain,
        what: end.to_string(),
    })
}
