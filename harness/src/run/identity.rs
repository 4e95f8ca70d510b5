//! What a result depends on: all that the guest can see.
//!
//! Where files lie, what a kernel or a scenario is called, and what a scenario expects are
//! not part of it.

use numalab_kernels::Digest;
use numalab_kernels::digest::Digester;
use numalab_protocol::{CONTRACT, WINDOW_NS};

use crate::guest::argv::{self, Boot, HostOptions, Monitor};
use crate::guest::mode::Platform;
use crate::guest::topology::Machine;
use crate::kernel_id::PlanIn;
use crate::run::cached_run::SCHEMA;

/// What a result depends on.
#[derive(Debug)]
pub(super) struct RunIdentity<'a> {
    pub(super) machine: &'a Machine,
    pub(super) platform: Platform,
    pub(super) pages: Vec<Vec<u8>>,
    pub(super) qemu: &'a str,
    pub(super) firmware: &'a str,
    pub(super) kernel: &'a str,
    pub(super) image: &'a str,
    pub(super) plan_in: PlanIn,
}

impl RunIdentity<'_> {
    /// The name of the result in the cache.
    pub(super) fn key(&self) -> Digest {
        let mut digester = Digester::new();
        digester
            .field("schema", SCHEMA.to_string())
            .field("contract", CONTRACT.to_string())
            .field("window", WINDOW_NS.to_string())
            .field("qemu", self.qemu)
            .field("firmware", self.firmware)
            .field("kernel", self.kernel)
            .field("image", self.image)
            .field("plan-in", format!("{:?}", self.plan_in));
        self.add_guest(&mut digester);
        digester.finish()
    }

    /// The digest of what the guest does and where, whatever kernel does it under whatever
    /// QEMU.
    pub(super) fn shape(&self) -> Digest {
        let mut digester = Digester::new();
        self.add_guest(&mut digester);
        digester.finish()
    }

    fn add_guest(&self, digester: &mut Digester) {
        // Those of a cold boot, which restored guests are equal to.
        let boot = Boot::canonical(self.machine.clone(), self.platform);
        let options = HostOptions {
            sandbox: false,
            monitor: Monitor::Nobody,
        };
        for argument in argv::arguments(&boot, options) {
            digester.field("argument", argument);
        }
        for page in &self.pages {
            digester.field("page", page);
        }
    }
}
