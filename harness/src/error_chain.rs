//! An error with its causes on one line, where nothing else shows its sources.

/// An error and its causes, on one line.
pub fn sentence(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(": ")
}
