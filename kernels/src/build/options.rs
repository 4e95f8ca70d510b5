//! How kernels are built, as a caller may choose.

use std::ffi::OsString;
use std::time::Duration;

/// How kernels are built. None of it decides what they are, but for the compiler.
#[derive(Debug, Clone)]
pub struct BuildOptions {
    /// How many compilers run at once; `None` chooses by CPUs and memory.
    pub jobs: Option<usize>,
    /// Whether ccache is used if it is installed.
    pub ccache: bool,
    /// The compiler's command, for instance `gcc` or `gcc-13`.
    pub compiler: String,
    /// Whether it is built from nothing, without the compiler's cache, though the store
    /// has it: to hold one against the other.
    pub fresh: bool,
    /// Where tools are looked for; `None` is the caller's PATH.
    pub path: Option<OsString>,
    /// For one compilation.
    pub build_deadline: Duration,
    /// For fetching and unpacking a source.
    pub fetch_deadline: Duration,
    /// For one silence of a server that something is fetched from.
    pub stall_deadline: Duration,
    /// For waiting while another process has what is needed.
    pub wait_deadline: Duration,
}

impl Default for BuildOptions {
    fn default() -> Self {
        const MINUTE: Duration = Duration::from_secs(60);
        Self {
            jobs: None,
            ccache: true,
            compiler: "gcc".to_owned(),
            fresh: false,
            path: None,
            build_deadline: 90 * MINUTE,
            fetch_deadline: 30 * MINUTE,
            stall_deadline: Duration::from_secs(30),
            wait_deadline: 120 * MINUTE,
        }
    }
}
