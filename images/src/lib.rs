//! The guest image: the agent, packed into an initramfs.
//!
//! `build.rs` builds the agent and embeds it in this library, so that an image can be made
//! anywhere, without a compiler and without root.

mod archive;
mod store;

pub use archive::Module;
pub use store::{Image, ImageError, get_or_build};

use sha2::{Digest, Sha256};

/// The agent: a static program for x86-64, PID 1 of a guest.
static AGENT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/numalab-agent"));

/// The initramfs of a guest that reads its plan from fw_cfg: an uncompressed `newc` archive
/// (`Documentation/driver-api/early-userspace/buffer-format.rst`). Reproducible.
pub fn initramfs() -> Vec<u8> {
    archive::pack(AGENT, &[])
}

/// An archive with the plan as the file `/plan`, to be appended to the initramfs of a guest
/// whose kernel lacks `CONFIG_FW_CFG_SYSFS`. `pages` come from
/// `numalab_protocol::pages::encode`.
pub fn appended_plan(pages: &[Vec<u8>]) -> Vec<u8> {
    archive::pack_plan(&pages.concat())
}

/// The SHA-256 of [`initramfs`], in hexadecimal digits.
pub fn digest() -> String {
    hex(&initramfs())
}

/// The SHA-256 of bytes, in hexadecimal digits.
fn hex(bytes: &[u8]) -> String {
    let digest = Sha256::digest(bytes);
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_digest_is_sha256() {
        assert_eq!(
            hex(b"abc"),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
        assert_eq!(digest(), hex(&initramfs()));
    }

    /// Paths of the building machine that could end up in the agent.
    fn machine_paths() -> Vec<String> {
        let workspace = env!("CARGO_MANIFEST_DIR");
        let mut paths = vec![workspace.to_owned(), env!("OUT_DIR").to_owned()];
        paths.extend(workspace.rsplit_once('/').map(|(parent, _)| parent.into()));
        for name in ["HOME", "CARGO_HOME", "RUSTUP_HOME", "CARGO_TARGET_DIR"] {
            paths.extend(std::env::var(name).ok());
        }
        // The name of a registry, and of a toolchain.
        paths.extend(["registry/src", ".cargo/", ".rustup/", "toolchains/"].map(String::from));
        paths.retain(|path| path.len() > 1);
        paths
    }

    #[test]
    fn no_path_of_the_building_machine_is_in_the_agent() {
        for path in machine_paths() {
            let found = AGENT
                .windows(path.len())
                .any(|bytes| bytes == path.as_bytes());
            assert!(!found, "{path:?} is in the agent");
        }
    }

    #[test]
    fn the_archive_is_not_compressed_so_that_any_kernel_can_unpack_it() {
        assert_eq!(&initramfs()[..6], b"070701");
    }

    #[test]
    fn the_agent_is_a_static_program() {
        assert_eq!(&AGENT[..4], b"\x7fELF");
        let half = |at: usize| u16::from_le_bytes([AGENT[at], AGENT[at + 1]]);
        let long = |at: usize| {
            let bytes = AGENT[at..at + 8].try_into().unwrap();
            usize::try_from(u64::from_le_bytes(bytes)).unwrap()
        };
        // ELF-64: e_type 2 is ET_EXEC; e_phoff, e_phentsize, e_phnum.
        assert_eq!(half(16), 2);
        let (start, size, count) = (long(32), usize::from(half(54)), usize::from(half(56)));
        let kinds: Vec<u16> = (0..count).map(|n| half(start + n * size)).collect();
        assert!(kinds.contains(&1), "there is no PT_LOAD");
        assert!(!kinds.contains(&3), "there is a PT_INTERP");
    }
}
