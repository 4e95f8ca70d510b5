//! The firmware: an input of a run that QEMU's version does not tell.

use std::path::Path;

use numalab_kernels::digest::{Digest, Digester};

use crate::machine::qemu::Qemu;

/// The digest of the firmware that QEMU loads: it is no part of QEMU's version. Unknown
/// where distributions keep it somewhere else.
pub(super) fn digest(qemu: &Qemu) -> String {
    let prefix = qemu.path().ancestors().nth(2).unwrap_or(Path::new("/usr"));
    let folders = ["share/seabios", "share/qemu"].map(|folder| prefix.join(folder));
    let mut digester = Digester::new();
    for name in ["bios-256k.bin", "pvh.bin"] {
        let found = folders
            .iter()
            .find_map(|folder| Digest::of_file(&folder.join(name)).ok());
        match found {
            Some(digest) => digester.field(name, digest.to_string()),
            None => return "unknown".into(),
        };
    }
    digester.finish().to_string()
}
