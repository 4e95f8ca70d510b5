//! Which snapshot is wanted, and its name.

use numalab_kernels::Digest;
use numalab_kernels::digest::Digester;
use numalab_protocol::{CONTRACT, WINDOW_NS};

use crate::guest::argv::{self, Boot, HostOptions, Monitor, Start};
use crate::guest::qemu::Qemu;

/// The version of an entry's form.
pub(super) const SCHEMA: u32 = 1;

pub(super) const DISK: &str = "guest.qcow2";
pub(super) const CONSOLE: &str = "console.log";
pub(super) const RECORDS: &str = "records.jsonl";

/// Which snapshot is wanted.
#[derive(Debug, Clone, Copy)]
pub struct SnapshotRequest<'a> {
    /// The QEMU that runs it.
    pub qemu: &'a Qemu,
    /// The cold boot that it replaces. Only what the guest can see of it matters: not where
    /// files lie, and not what is in the plan's pages.
    pub boot: &'a Boot,
    /// SHA-256 of the kernel's image.
    pub kernel: &'a str,
    /// SHA-256 of the initramfs.
    pub image: &'a str,
    /// What to call it.
    pub title: &'a str,
}

impl SnapshotRequest<'_> {
    /// The name of the saved guest: the digest of all that it depends on.
    pub fn key(&self) -> Digest {
        let mut digester = Digester::new();
        digester
            .field("schema", SCHEMA.to_string())
            .field("contract", CONTRACT.to_string())
            .field("window", WINDOW_NS.to_string())
            .field("qemu", self.qemu.text())
            .field("kernel", self.kernel)
            .field("image", self.image);
        for argument in self.arguments() {
            digester.field("argument", argument);
        }
        digester.finish()
    }

    /// QEMU's arguments, independent of where files lie.
    pub(super) fn arguments(&self) -> Vec<String> {
        let boot = Boot {
            console: CONSOLE.into(),
            records: RECORDS.into(),
            start: Start::Savable(DISK.into()),
            ..Boot::canonical(self.boot.machine.clone(), self.boot.platform)
        };
        let options = HostOptions {
            sandbox: self.qemu.sandbox(),
            monitor: Monitor::Descriptor(0),
        };
        argv::arguments(&boot, options)
    }
}
