//! The firmware: an input of a run that QEMU's version does not cover.

use std::path::{Path, PathBuf};

use numalab_kernels::digest::{Digest, Digester};

use crate::guest::qemu::Qemu;

/// What QEMU loads for a bzImage and for an image with a PVH note.
const FILES: [&str; 2] = ["bios-256k.bin", "pvh.bin"];

/// The digest of the firmware that QEMU loads; `None` if it is not found.
pub(super) fn digest(qemu: &Qemu) -> Option<String> {
    let prefix = qemu.path().ancestors().nth(2).unwrap_or(Path::new("/usr"));
    let usual = ["share/seabios", "share/qemu"].map(|folder| prefix.join(folder));
    // QEMU knows better, but asking it takes a while.
    of(&usual).or_else(|| of(&qemu.data_folders()))
}

fn of(folders: &[PathBuf]) -> Option<String> {
    let mut digester = Digester::new();
    for name in FILES {
        let found = folders
            .iter()
            .find_map(|folder| Digest::of_file(&folder.join(name)).ok());
        digester.field(name, found?.to_string());
    }
    Some(digester.finish().to_string())
}
