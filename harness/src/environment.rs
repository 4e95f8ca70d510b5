//! The environment variables of numalab and of its test runner. They are read here, once, and
//! passed on.

use std::ffi::OsString;

use camino::Utf8PathBuf;

/// The variables that are set and not empty.
#[derive(Debug, Clone, Default)]
pub struct Environment {
    /// `NUMALAB_ROOT`: the project's folder.
    pub root: Option<Utf8PathBuf>,
    /// `NUMALAB_RUNS`: where run folders are made.
    pub runs: Option<Utf8PathBuf>,
    /// `NUMALAB_QEMU`: the QEMU to use.
    pub qemu: Option<OsString>,
    /// `NUMALAB_CC`: the compiler for kernels.
    pub compiler: Option<String>,
    /// `NUMALAB_BASE`: the kernel that tests compare `kernel` with.
    pub base: Option<String>,
    /// `NUMALAB_KERNEL`: the kernel that tests run instead of the shipped ones.
    pub kernel: Option<String>,
    /// `NUMALAB_PROVE_AGAIN`: one in how many cached results is run again.
    pub prove_again: Option<String>,
    /// `NUMALAB_DRAW`: the number that decides which ones.
    pub draw: Option<String>,
    /// `NEXTEST_RUN_ID`: the test runner's run.
    pub test_run: Option<String>,
    /// `NEXTEST_WORKSPACE_ROOT`: where the test runner was started.
    pub test_workspace: Option<Utf8PathBuf>,
}

impl Environment {
    /// Reads the variables of this process.
    pub fn read() -> Environment {
        let bytes = |name| std::env::var_os(name).filter(|value| !value.is_empty());
        let text = |name| bytes(name).and_then(|value| value.into_string().ok());
        let path = |name| text(name).map(Utf8PathBuf::from);
        Environment {
            root: path("NUMALAB_ROOT"),
            runs: path("NUMALAB_RUNS"),
            qemu: bytes("NUMALAB_QEMU"),
            compiler: text("NUMALAB_CC"),
            base: text("NUMALAB_BASE"),
            kernel: text("NUMALAB_KERNEL"),
            prove_again: text("NUMALAB_PROVE_AGAIN"),
            draw: text("NUMALAB_DRAW"),
            test_run: text("NEXTEST_RUN_ID"),
            test_workspace: path("NEXTEST_WORKSPACE_ROOT"),
        }
    }
}
