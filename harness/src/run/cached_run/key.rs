//! The name of a result: the digest of all that the guest can see.
//!
//! Where files lie, what a kernel or a scenario is called, and what is claimed of the run are
//! not in it.

use numalab_kernels::Digest;
use numalab_kernels::digest::Digester;
use numalab_protocol::{CONTRACT, WINDOW_NS};

use super::entry::SCHEMA;
use crate::guest::argv::{self, Boot, HostOptions, Monitor, Start};
use crate::guest::mode::Platform;
use crate::guest::topology::Machine;
use crate::kernel_id::PlanIn;

/// What a result is of.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RunIdentity<'a> {
    /// The machine, with the kernel's parameters.
    pub(crate) machine: &'a Machine,
    /// How it runs.
    pub(crate) platform: Platform,
    /// The plan's pages, as the guest reads them.
    pub(crate) pages: &'a [Vec<u8>],
    /// QEMU's version, as it prints it.
    pub(crate) qemu: &'a str,
    /// SHA-256 of the firmware.
    pub(crate) firmware: &'a str,
    /// SHA-256 of the kernel's image.
    pub(crate) kernel: &'a str,
    /// SHA-256 of the initramfs.
    pub(crate) image: &'a str,
    /// Where the guest finds its plan.
    pub(crate) plan_in: PlanIn,
}

impl RunIdentity<'_> {
    /// The digest of it.
    pub(crate) fn key(&self) -> Digest {
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
        for argument in self.arguments() {
            digester.field("argument", argument);
        }
        for page in self.pages {
            digester.field("page", page);
        }
        digester.finish()
    }

    /// The digest of what the guest does and where, whatever kernel does it under whatever
    /// QEMU: what its duration goes by.
    pub(crate) fn shape(&self) -> Digest {
        let mut digester = Digester::new();
        for argument in self.arguments() {
            digester.field("argument", argument);
        }
        for page in self.pages {
            digester.field("page", page);
        }
        digester.finish()
    }

    /// QEMU's arguments with names in place of paths: alike for cold and restored guests,
    /// which are alike.
    fn arguments(&self) -> Vec<String> {
        let boot = Boot {
            machine: self.machine.clone(),
            platform: self.platform,
            kernel: "kernel".into(),
            initrd: "initramfs".into(),
            pages: std::array::from_fn(|index| format!("page{index}").into()),
            console: "console".into(),
            records: "records".into(),
            start: Start::Cold,
        };
        let surroundings = HostOptions {
            sandbox: false,
            monitor: Monitor::Nobody,
        };
        argv::arguments(&boot, surroundings)
    }
}
