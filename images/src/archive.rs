//! The archive that the kernel unpacks as its first file system.

use std::io::{self, Write};

use cpio::newc::{Builder, ModeFileType, trailer};

/// A module of the kernel that the agent loads before anything else.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Module {
    /// Its file's name. Modules are loaded in the order of these.
    pub name: String,
    /// The module, uncompressed.
    pub bytes: Vec<u8>,
}

/// Mount points, and the directory of devices.
const DIRECTORIES: [&str; 4] = ["dev", "proc", "sys", "cpuset"];

/// Devices that the agent needs before or without devtmpfs: name, major and minor
/// (`Documentation/admin-guide/devices.txt`). The kernel opens `/dev/console` for PID 1.
const DEVICES: [(&str, u32, u32); 4] = [
    ("dev/console", 5, 1),
    ("dev/null", 1, 3),
    ("dev/urandom", 1, 9),
    ("dev/ttyS1", 4, 65),
];

/// Packs the agent and the modules that it loads.
pub(crate) fn pack(agent: &[u8], modules: &[Module]) -> Vec<u8> {
    write(agent, modules).expect("writing to memory fails only where a file exceeds 4 GiB")
}

/// Packs a plan, to be appended to another archive.
pub(crate) fn pack_plan(plan: &[u8]) -> Vec<u8> {
    let write = || {
        let mut archive = Archive::default();
        archive.add("plan", ModeFileType::Regular, 0o444, (0, 0), plan)?;
        trailer(archive.bytes)
    };
    write().expect("writing to memory fails only where a file exceeds 4 GiB")
}

fn write(agent: &[u8], modules: &[Module]) -> io::Result<Vec<u8>> {
    let mut archive = Archive::default();
    for name in DIRECTORIES {
        archive.add(name, ModeFileType::Directory, 0o755, (0, 0), &[])?;
    }
    for (name, major, minor) in DEVICES {
        archive.add(name, ModeFileType::Char, 0o600, (major, minor), &[])?;
    }
    archive.add("init", ModeFileType::Regular, 0o755, (0, 0), agent)?;
    if !modules.is_empty() {
        archive.add("modules", ModeFileType::Directory, 0o755, (0, 0), &[])?;
    }
    for module in modules {
        let name = format!("modules/{}", module.name);
        archive.add(&name, ModeFileType::Regular, 0o444, (0, 0), &module.bytes)?;
    }
    trailer(archive.bytes)
}

/// An archive under construction. For reproducible bytes all entries belong to root, have
/// time 0, and are numbered in order.
#[derive(Default)]
struct Archive {
    bytes: Vec<u8>,
    entries: u32,
}

impl Archive {
    fn add(
        &mut self,
        name: &str,
        kind: ModeFileType,
        mode: u32,
        (major, minor): (u32, u32),
        content: &[u8],
    ) -> io::Result<()> {
        self.entries += 1;
        let length = u32::try_from(content.len()).map_err(io::Error::other)?;
        let directory = matches!(kind, ModeFileType::Directory);
        let mut entry = Builder::new(name)
            .ino(self.entries)
            .mode(mode)
            .set_mode_file_type(kind)
            .nlink(if directory { 2 } else { 1 })
            .uid(0)
            .gid(0)
            .mtime(0)
            .rdev_major(major)
            .rdev_minor(minor)
            .write(std::mem::take(&mut self.bytes), length);
        entry.write_all(content)?;
        self.bytes = entry.finish()?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use cpio::newc::Reader;

    use super::*;

    /// Name, mode, device and content.
    type Found = (String, u32, (u32, u32), Vec<u8>);

    /// The entries of an archive.
    fn entries(mut archive: &[u8]) -> Vec<Found> {
        let mut entries = Vec::new();
        loop {
            let mut reader = Reader::new(archive).unwrap();
            let entry = reader.entry().clone();
            if entry.is_trailer() {
                return entries;
            }
            assert_eq!((entry.uid(), entry.gid(), entry.mtime()), (0, 0, 0));
            let mut content = Vec::new();
            reader.read_to_end(&mut content).unwrap();
            let device = (entry.rdev_major(), entry.rdev_minor());
            entries.push((entry.name().into(), entry.mode(), device, content));
            archive = reader.finish().unwrap();
        }
    }

    #[test]
    fn the_kernel_finds_what_it_needs() {
        // Lengths that leave each padding.
        for length in 0..5 {
            let agent = vec![7; length];
            let entries = entries(&pack(&agent, &[]));
            let find = |name| entries.iter().find(|entry| entry.0 == name).unwrap();
            assert_eq!(find("init").1, 0o100_755);
            assert_eq!(find("init").3, agent);
            assert_eq!(find("dev/console").1, 0o020_600);
            assert_eq!(find("dev/console").2, (5, 1));
            assert_eq!(find("proc").1, 0o040_755);
            // A directory precedes its entries.
            let place = |name| entries.iter().position(|entry| entry.0 == name).unwrap();
            assert!(place("dev") < place("dev/console"));
            assert!(!entries.iter().any(|entry| entry.0 == "plan"));
        }
    }

    #[test]
    fn a_plan_is_one_file_of_all_its_pages() {
        let plan = vec![1; 8192];
        let entries = entries(&pack_plan(&plan));
        assert_eq!(entries.last().unwrap().0, "plan");
        assert_eq!(entries.last().unwrap().3, plan);
        // The kernel unpacks a second archive if it is aligned to four bytes
        // (`unpack_to_rootfs`).
        assert_eq!(pack(b"agents", &[]).len() % 4, 0);
    }

    #[test]
    fn modules_come_in_their_order() {
        let module = |name: &str| Module {
            name: name.into(),
            bytes: name.as_bytes().into(),
        };
        let found = entries(&pack(b"agent", &[module("00-b.ko"), module("01-a.ko")]));
        let names: Vec<&str> = found.iter().map(|entry| entry.0.as_str()).collect();
        assert!(names.ends_with(&["init", "modules", "modules/00-b.ko", "modules/01-a.ko"]));
        assert_eq!(found.last().unwrap().3, b"01-a.ko");
    }

    #[test]
    fn the_same_input_gives_the_same_bytes() {
        assert_eq!(pack(b"agent", &[]), pack(b"agent", &[]));
        assert_ne!(pack(b"agent", &[]), pack(b"tnega", &[]));
    }
}
