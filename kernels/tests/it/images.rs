//! Images of others: recognised by content, taken into the store, or refused.

use std::fs;

use numalab_kernels::image::{self, ImageKind};
use numalab_kernels::{Catalog, Digest, ErrorKind};

use crate::bench::{Bench, Listener};

#[test]
fn an_image_is_taken_as_it_is() {
    let bench = Bench::new();
    let built = bench.get_or_build(&bench.wanted("small")).unwrap();
    let path = bench.path().join("their kernel");
    fs::copy(&built.image, &path).unwrap();
    let listener = Listener::default();
    let kernel = bench
        .ensure_told(&bench.wanted("their kernel"), &listener)
        .unwrap();
    assert_eq!(kernel.image_digest, built.image_digest);
    assert_eq!(kernel.release, "6.12.0-small");
    assert_eq!(kernel.manifest.kind, ImageKind::Vmlinux);
    assert!(kernel.config.is_none() && kernel.manifest.built.is_none());
    assert_eq!(kernel.lacks().unwrap(), []);
    // What was taken stays, though the file changes.
    fs::write(&path, "x").unwrap();
    assert_eq!(Digest::of_file(&kernel.image).unwrap(), kernel.image_digest);
}

#[test]
fn a_configuration_beside_an_image_is_checked() {
    let bench = Bench::new();
    let built = bench.get_or_build(&bench.wanted("small")).unwrap();
    let folder = bench.path().join("obj");
    fs::create_dir(&folder).unwrap();
    fs::copy(&built.image, folder.join("vmlinux")).unwrap();
    fs::write(folder.join(".config"), "CONFIG_NUMA=y\nCONFIG_SMP=y\n").unwrap();
    let listener = Listener::default();
    let kernel = bench
        .ensure_told(&bench.wanted("obj/vmlinux"), &listener)
        .unwrap();
    assert_eq!(
        kernel.config_value("CONFIG_SMP").unwrap().as_deref(),
        Some("y")
    );
    let told = listener.text();
    assert!(
        told.contains("warning: obj was built without CONFIG_FW_CFG_SYSFS (it is n): the plan comes in by fw_cfg; it comes in the initramfs instead"),
        "{told}"
    );
    assert!(!told.contains("CONFIG_SMP"), "{told}");
}

#[test]
fn a_boot_image_is_recognised() {
    let bench = Bench::new();
    let mut bytes = vec![0; 4096];
    bytes[0x1fe..0x200].copy_from_slice(&[0x55, 0xaa]);
    bytes[0x202..0x206].copy_from_slice(b"HdrS");
    bytes[0x20e..0x210].copy_from_slice(&0x400_u16.to_le_bytes());
    bytes[0x600..0x618].copy_from_slice(b"6.1.0-13-amd64 (x@y) #1\0");
    let path = bench.path().join("vmlinuz");
    fs::write(&path, bytes).unwrap();
    let found = image::inspect(&path).unwrap();
    assert_eq!(found.kind, ImageKind::BzImage);
    assert_eq!(found.release.as_deref(), Some("6.1.0-13-amd64"));
}

#[test]
fn what_is_no_kernel_is_refused_with_the_reason() {
    let bench = Bench::new();
    let built = bench.get_or_build(&bench.wanted("small")).unwrap();
    let elf = fs::read(&built.image).unwrap();
    let mut other_machine = elf.clone();
    other_machine[18] = 183;
    let mut module = elf.clone();
    module[16] = 1;
    let mut no_note = elf.clone();
    let at = no_note
        .windows(4)
        .position(|four| four == b"Xen\0")
        .unwrap();
    no_note[at] = b'Y';
    let cases: [(&str, &[u8], &str); 9] = [
        ("empty", b"", "the file is empty"),
        ("text", b"hello, world\n", "neither an ELF file"),
        ("initrd", b"\x1f\x8b\x08\0", "an initramfs"),
        (
            "package",
            b"!<arch>\ndebian-binary   ",
            "its name does not end in .deb",
        ),
        ("patch", b"diff --git a/x b/x\n", "KERNEL+PATCH"),
        ("short", &elf[..40], "cut off"),
        ("arm", &other_machine, "not for x86-64"),
        ("module", &module, "kernel module"),
        ("plain", &no_note, "CONFIG_PVH"),
    ];
    for (name, bytes, why) in cases {
        fs::write(bench.path().join(name), bytes).unwrap();
        let error = Catalog::load(&bench.catalog())
            .unwrap()
            .resolve(name, bench.path(), &bench.cache())
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Input);
        assert!(error.to_string().contains(why), "{name}: {error}");
    }
    let error = Catalog::load(&bench.catalog())
        .unwrap()
        .resolve("/dev/null", bench.path(), &bench.cache())
        .unwrap_err();
    let why = std::error::Error::source(&error).unwrap().to_string();
    assert_eq!(why, "it is a device, not a regular file");
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(64))]
    #[test]
    fn any_elf_header_is_answered(rest in proptest::collection::vec(proptest::num::u8::ANY, 0..256)) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("image");
        let mut bytes = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x02\0\x3e\0".to_vec();
        bytes.extend(rest);
        fs::write(&path, bytes).unwrap();
        let _ = image::inspect(&path);
    }
}

#[test]
fn a_cut_image_is_called_cut_and_a_named_pipe_is_not_waited_for() {
    let bench = Bench::new();
    let built = bench.get_or_build(&bench.wanted("small")).unwrap();
    let elf = fs::read(&built.image).unwrap();
    let mut boot = vec![0; 128 * 1024];
    boot[0x1f1] = 4;
    boot[0x1f4..0x1f8].copy_from_slice(&4000_u32.to_le_bytes());
    boot[0x1fe..0x200].copy_from_slice(&[0x55, 0xaa]);
    boot[0x202..0x206].copy_from_slice(b"HdrS");
    let path = bench.path().join("cut");
    for (bytes, length) in [
        (&elf, elf.len() / 2),
        (&elf, elf.len() - 1),
        (&boot, 60_000),
    ] {
        fs::write(&path, &bytes[..length]).unwrap();
        let told = image::inspect(&path).unwrap_err().to_string();
        assert!(told.contains("it is cut off"), "{told}");
    }
    for bytes in [&elf, &boot[..5 * 512 + 4000 * 16 - 12].to_vec()] {
        fs::write(&path, bytes).unwrap();
        image::inspect(&path).unwrap();
    }

    let pipe = bench.path().join("pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    assert!(made.unwrap().success());
    for word in [
        "pipe",
        "small+pipe",
        "small+fragment:pipe",
        "small+config:pipe",
    ] {
        let error = Catalog::load(&bench.catalog())
            .unwrap()
            .resolve(word, bench.path(), &bench.cache())
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Input);
        let report = format!("{error} {:?}", std::error::Error::source(&error));
        assert!(report.contains("it is a pipe"), "{word}: {report}");
    }
}

#[test]
fn an_image_is_called_as_its_file_or_as_the_folder_of_its_build() {
    let bench = Bench::new();
    let built = bench.get_or_build(&bench.wanted("small")).unwrap();
    for (path, name) in [
        ("mine/vmlinux", "mine"),
        ("next/arch/x86/boot/bzImage", "next"),
        ("kernels/old-vmlinux", "old-vmlinux"),
    ] {
        let place = bench.path().join(path);
        fs::create_dir_all(place.parent().unwrap()).unwrap();
        fs::copy(&built.image, place).unwrap();
        assert_eq!(bench.wanted(path).name, name);
    }
}
