//! Why a run ends early, and errors with the name of their stage.

use std::error::Error;
use std::fmt::Write as _;

use crate::records::RecordsError;

/// Why a run ends early.
#[derive(Debug)]
pub(crate) enum Stop {
    /// The plan cannot be carried out; the `Error` record is still to be sent.
    Failed { stage: String, message: String },
    /// A wait timed out, and its record has been sent.
    GaveUp,
    /// Records cannot be sent any more.
    Mute(RecordsError),
}

impl From<RecordsError> for Stop {
    fn from(error: RecordsError) -> Self {
        Stop::Mute(error)
    }
}

impl Stop {
    /// An error of a stage, such as `topology` or `step 2`.
    pub(crate) fn failed(stage: impl Into<String>, error: &dyn Error) -> Self {
        Stop::Failed {
            stage: stage.into(),
            message: chain(error),
        }
    }
}

/// Adds the name of a stage to an error.
pub(crate) trait Stage<T> {
    fn stage(self, stage: &str) -> Result<T, Stop>;
}

impl<T, E: Error> Stage<T> for Result<T, E> {
    fn stage(self, stage: &str) -> Result<T, Stop> {
        self.map_err(|error| Stop::failed(stage, &error))
    }
}

/// An error and its sources on one line.
pub(crate) fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        // Writing to a string cannot fail.
        let _ = write!(text, ": {error}");
        source = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("outer")]
    struct Outer(#[source] Inner);

    #[derive(Debug, thiserror::Error)]
    #[error("inner")]
    struct Inner;

    #[test]
    fn the_whole_chain_is_reported() {
        let result: Result<(), Outer> = Err(Outer(Inner));
        match result.stage("step 2") {
            Err(Stop::Failed { stage, message }) => {
                assert_eq!(
                    (stage.as_str(), message.as_str()),
                    ("step 2", "outer: inner")
                );
            }
            other => panic!("{other:?}"),
        }
    }
}
