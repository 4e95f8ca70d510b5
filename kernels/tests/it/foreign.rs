//! Kernels of distributions: packages made on the spot, with modules, for none of them is
//! booted here.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use numalab_kernels::image::ImageKind;
use numalab_kernels::{ErrorKind, Kernel};

use crate::bench::{Bench, Listener};

const RELEASE: &str = "6.1.0-99-cloud-amd64";

/// The start of a bzImage of this release.
fn boot_image(release: &str) -> Vec<u8> {
    let mut bytes = vec![0; 4096];
    bytes[0x1fe..0x200].copy_from_slice(&[0x55, 0xaa]);
    bytes[0x202..0x206].copy_from_slice(b"HdrS");
    bytes[0x20e..0x210].copy_from_slice(&0x400_u16.to_le_bytes());
    let text = format!("{release} (x@y) #1\0");
    bytes[0x600..0x600 + text.len()].copy_from_slice(text.as_bytes());
    bytes
}

/// An ELF file with the section `.modinfo`.
fn module(release: &str, depends: &str) -> Vec<u8> {
    let info = format!("depends={depends}\0vermagic={release} SMP mod_unload \0");
    let names = b"\0.modinfo\0";
    let mut bytes = b"\x7fELF\x02\x01\x01".to_vec();
    bytes.resize(64, 0);
    let at = bytes.len();
    bytes.extend(info.as_bytes());
    let names_at = bytes.len();
    bytes.extend(names);
    let table = bytes.len();
    for (name, offset, length) in [(1_u32, at, info.len()), (0, names_at, names.len())] {
        let mut header = [0; 64];
        header[..4].copy_from_slice(&name.to_le_bytes());
        header[0x18..0x20].copy_from_slice(&(offset as u64).to_le_bytes());
        header[0x20..0x28].copy_from_slice(&(length as u64).to_le_bytes());
        bytes.extend(header);
    }
    bytes[0x28..0x30].copy_from_slice(&(table as u64).to_le_bytes());
    bytes[0x3a..0x40].copy_from_slice(&[64, 0, 2, 0, 1, 0]);
    bytes
}

/// A package with these files; `None`, with the reason printed, where there is no dpkg.
fn package(bench: &Bench, files: &[(&str, Vec<u8>)]) -> Option<PathBuf> {
    if which::which("dpkg-deb").is_err() {
        eprintln!("not tried: there is no dpkg-deb here");
        return None;
    }
    let folder = bench.path().join("package");
    let _ = fs::remove_dir_all(&folder);
    bench.write(
        "package/DEBIAN/control",
        "Package: linux-image-x\nVersion: 1\nArchitecture: amd64\nMaintainer: x <x@y>\n\
         Depends: kmod, linux-image-6.1.0-99-amd64 (= 1)\nDescription: x\n",
    );
    for (name, bytes) in files {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }
    let file = bench.path().join("linux image.deb");
    let output = Command::new("dpkg-deb")
        .args(["--root-owner-group", "--build"])
        .arg(&folder)
        .arg(&file)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    Some(file)
}

fn compressed(tool: &str, bytes: &[u8]) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, bytes).unwrap();
    let output = Command::new(tool).arg("-c").arg(&file).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    output.stdout
}

const CONFIG: &str = "CONFIG_64BIT=y\nCONFIG_SERIAL_8250=y\nCONFIG_FW_CFG_SYSFS=m\n";

fn modules() -> String {
    format!("lib/modules/{RELEASE}/kernel/drivers")
}

fn names(kernel: &Kernel) -> Vec<&str> {
    kernel.modules().map(|(name, _)| name).collect()
}

#[test]
fn a_distributions_package_is_a_kernel_with_the_modules_that_it_needs() {
    let bench = Bench::new();
    let fw_cfg = module(RELEASE, "other-thing,more");
    let files = [
        (format!("boot/vmlinuz-{RELEASE}"), boot_image(RELEASE)),
        (format!("boot/config-{RELEASE}"), CONFIG.into()),
        (
            format!("{}/firmware/qemu_fw_cfg.ko.xz", modules()),
            compressed("xz", &fw_cfg),
        ),
        (
            format!("{}/other_thing.ko.gz", modules()),
            compressed("gzip", &module(RELEASE, "more")),
        ),
        (format!("{}/more.ko", modules()), module(RELEASE, "")),
        (format!("{}/nobodys.ko", modules()), module(RELEASE, "")),
    ];
    let files: Vec<(&str, Vec<u8>)> = files.iter().map(|(n, b)| (n.as_str(), b.clone())).collect();
    let Some(file) = package(&bench, &files) else {
        return;
    };
    let before = fs::read(&file).unwrap();
    let listener = Listener::default();
    let wanted = bench.wanted("linux image.deb");
    let kernel = bench.ensure_told(&wanted, &listener).unwrap();
    assert_eq!(kernel.release, RELEASE);
    assert_eq!(kernel.manifest.kind, ImageKind::BzImage);
    assert!(kernel.manifest.reads_fw_cfg);
    assert_eq!(
        names(&kernel),
        ["00-more.ko", "01-other_thing.ko", "02-qemu_fw_cfg.ko"]
    );
    let (_, last) = kernel.modules().last().unwrap();
    assert_eq!(fs::read(&last).unwrap(), fw_cfg);
    // Each option that it lacks is named, with its value; the one that is a module is not.
    let told = listener.text();
    assert!(
        told.contains("without CONFIG_NUMA_BALANCING (it is n): it is the subject"),
        "{told}"
    );
    assert!(
        !told.contains("CONFIG_FW_CFG_SYSFS") && !told.contains("CONFIG_64BIT"),
        "{told}"
    );
    assert_eq!(bench.get_or_build(&wanted).unwrap().key, kernel.key);
    assert_eq!(fs::read(&file).unwrap(), before);
    // One that was damaged since is made again.
    fs::write(&last, "x").unwrap();
    let again = bench.get_or_build(&wanted).unwrap();
    assert_eq!(fs::read(again.modules().last().unwrap().1).unwrap(), fw_cfg);
}

#[test]
fn without_the_module_the_plan_comes_another_way_and_that_is_said() {
    let bench = Bench::new();
    let (image, config) = (
        format!("boot/vmlinuz-{RELEASE}"),
        format!("boot/config-{RELEASE}"),
    );
    let files = [
        (image.as_str(), boot_image(RELEASE)),
        (config.as_str(), CONFIG.into()),
    ];
    if package(&bench, &files).is_none() {
        return;
    }
    let listener = Listener::default();
    let wanted = bench.wanted("linux image.deb");
    let kernel = bench.ensure_told(&wanted, &listener).unwrap();
    assert!(!kernel.manifest.reads_fw_cfg);
    let told = listener.text();
    assert!(
        told.contains(
            "the module qemu_fw_cfg, which linux image.deb has not built in, is not with it"
        ),
        "{told}"
    );
    assert!(
        told.contains("without CONFIG_FW_CFG_SYSFS (it is m)"),
        "{told}"
    );
    assert!(told.contains("every guest boots cold"), "{told}");
}

#[test]
fn modules_of_another_build_and_packages_without_a_kernel_are_refused() {
    let bench = Bench::new();
    let (image, config) = (
        format!("boot/vmlinuz-{RELEASE}"),
        format!("boot/config-{RELEASE}"),
    );
    let path = format!("{}/qemu_fw_cfg.ko", modules());
    for (files, told) in [
        (
            vec![
                (image.as_str(), boot_image(RELEASE)),
                (config.as_str(), CONFIG.into()),
                (path.as_str(), module("6.1.0-98-cloud-amd64", "")),
            ],
            "the module qemu_fw_cfg that lies with",
        ),
        (
            vec![
                (image.as_str(), boot_image(RELEASE)),
                (config.as_str(), CONFIG.into()),
                (path.as_str(), b"text".to_vec()),
            ],
            "its qemu_fw_cfg.ko is no module",
        ),
        (
            vec![("usr/share/doc/x", b"x".to_vec())],
            "only depends on linux-image-6.1.0-99-amd64",
        ),
        (
            vec![(image.as_str(), b"text".to_vec())],
            "neither an ELF file",
        ),
    ] {
        if package(&bench, &files).is_none() {
            return;
        }
        let error = bench
            .get_or_build(&bench.wanted("linux image.deb"))
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Input, "{error}");
        assert!(error.to_string().contains(told), "{error}");
    }
    fs::write(bench.path().join("no.deb"), "text").unwrap();
    let error = bench.get_or_build(&bench.wanted("no.deb")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Input, "{error}");
    assert!(error.to_string().contains("no.deb"), "{error}");
}

#[test]
fn an_installed_kernel_has_its_modules_beside_it() {
    let bench = Bench::new();
    let root = bench.path().join("root");
    let drivers = root.join(modules());
    fs::create_dir_all(&drivers).unwrap();
    fs::create_dir_all(root.join("boot")).unwrap();
    fs::write(
        root.join(format!("boot/vmlinuz-{RELEASE}")),
        boot_image(RELEASE),
    )
    .unwrap();
    fs::write(root.join(format!("boot/config-{RELEASE}")), CONFIG).unwrap();
    fs::write(drivers.join("qemu_fw_cfg.ko"), module(RELEASE, "")).unwrap();
    let word = format!("root/boot/vmlinuz-{RELEASE}");
    let kernel = bench.get_or_build(&bench.wanted(&word)).unwrap();
    assert_eq!(names(&kernel), ["00-qemu_fw_cfg.ko"]);
    // Modules of another build are another kernel's, and refused.
    fs::write(drivers.join("qemu_fw_cfg.ko"), module("6.1.0-1", "")).unwrap();
    let error = bench.get_or_build(&bench.wanted(&word)).unwrap_err();
    assert!(
        error.to_string().contains("is for the kernel 6.1.0-1"),
        "{error}"
    );
}

#[test]
fn a_configuration_inside_of_an_image_is_found() {
    let bench = Bench::new();
    let built = bench.get_or_build(&bench.wanted("small")).unwrap();
    let mut image = fs::read(&built.image).unwrap();
    image.extend(b"IKCFG_ST");
    image.extend(compressed("gzip", b"CONFIG_SMP=y\nCONFIG_FW_CFG_SYSFS=y\n"));
    image.extend(b"IKCFG_ED");
    fs::write(bench.path().join("carrier"), &image).unwrap();
    let kernel = bench.get_or_build(&bench.wanted("carrier")).unwrap();
    assert_eq!(
        kernel.config_value("CONFIG_SMP").unwrap().as_deref(),
        Some("y")
    );
    // Without one, what the image itself shows decides.
    let listener = Listener::default();
    fs::write(bench.path().join("plain"), fs::read(&built.image).unwrap()).unwrap();
    let kernel = bench
        .ensure_told(&bench.wanted("plain"), &listener)
        .unwrap();
    assert!(!kernel.manifest.reads_fw_cfg);
    let told = listener.text();
    assert!(
        told.contains("the configuration of plain is not known"),
        "{told}"
    );
    assert!(told.contains("plain has no driver for fw_cfg"), "{told}");
}

#[test]
fn a_kernel_that_is_not_built_cannot_be_configured_or_patched() {
    let bench = Bench::new();
    let built = bench.get_or_build(&bench.wanted("small")).unwrap();
    fs::copy(&built.image, bench.path().join("theirs")).unwrap();
    let error = numalab_kernels::Catalog::load(&bench.catalog())
        .unwrap()
        .resolve("theirs+CONFIG_NUMA=y", bench.path(), &bench.cache())
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Input);
    assert!(
        error.to_string().contains("only a kernel that is built"),
        "{error}"
    );
}
