//! Exit codes, and why a command gives no result.

use miette::Report;
use numalab_kernels::ErrorKind;

use crate::error::Error;

/// Every verdict is `pass`; nothing is broken or unclear.
pub(super) const GOOD: u8 = 0;
/// A scenario fails; something is broken.
pub(super) const BAD: u8 = 1;
/// The input is wrong.
pub(super) const INPUT: u8 = 2;
/// Inconclusive: this machine did not allow an answer, or the guests gave none.
pub(super) const INCONCLUSIVE: u8 = 3;

/// Why a command gives no result.
#[derive(Debug)]
pub(super) enum Failure {
    /// The command line, or a file that it names, is wrong.
    Input(Report),
    /// This machine did not allow an answer.
    Environment(Report),
    /// A signal came.
    Interrupted,
}

impl Failure {
    pub(super) fn input(error: impl Into<Report>) -> Failure {
        Failure::Input(error.into())
    }
}

impl<E> From<E> for Failure
where
    Error: From<E>,
{
    fn from(error: E) -> Failure {
        match Error::from(error) {
            Error::Interrupted => Failure::Interrupted,
            Error::Kernel(error) => {
                let kind = error.kind();
                let report = crate::error::report(error);
                match kind {
                    ErrorKind::Input => Failure::Input(report),
                    ErrorKind::Build | ErrorKind::Environment => Failure::Environment(report),
                    ErrorKind::Interrupted => Failure::Interrupted,
                }
            }
            error if error.is_input() => Failure::Input(error.into()),
            error => Failure::Environment(error.into()),
        }
    }
}

impl From<Report> for Failure {
    // What is reported without a kind was found in what the user wrote.
    fn from(report: Report) -> Failure {
        Failure::Input(report)
    }
}
