//! What sort of failure an error is.

/// What sort of failure an error is. A comparison needs to know: a patched kernel that
/// does not compile is `broken`, a full disk says nothing about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// What the caller asked for is wrong: a name, a definition, a patch, an option.
    Input,
    /// The kernel does not compile.
    Build,
    /// The host could not do it: a full disk, no network, a missing tool.
    Environment,
    /// The caller cancelled.
    Interrupted,
}
