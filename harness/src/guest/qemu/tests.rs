use std::os::unix::fs::PermissionsExt;

use super::*;

#[test]
fn versions_are_read() {
    let debian = "QEMU emulator version 10.0.2 (Debian 1:10.0.2+ds-2+deb13u1~bpo12+1)\nCopy";
    let (version, text) = parse(debian).unwrap();
    assert_eq!(version.to_string(), "10.0.2");
    assert_eq!(text, "10.0.2 (Debian 1:10.0.2+ds-2+deb13u1~bpo12+1)");
    let (version, _) = parse("QEMU emulator version 9.2.0-rc1\n").unwrap();
    assert_eq!(version.to_string(), "9.2.0");
    assert!(version > EXACT_SINCE);
    let warned = "warning: an old configuration is ignored\nQEMU emulator version 10.0.2\nCopy";
    assert_eq!(parse(warned).unwrap().1, "10.0.2");
    for wrong in [
        "",
        "qemu",
        "QEMU emulator version x",
        "QEMU emulator version 9.2",
    ] {
        assert!(parse(wrong).is_none(), "{wrong}");
    }
}

fn program(folder: &Path, text: &str) -> PathBuf {
    let path = folder.join("qemu");
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

#[test]
fn an_old_one_is_refused_for_exact_mode_only() {
    let folder = tempfile::tempdir().unwrap();
    let old = "#!/bin/sh\n[ \"$1\" = --version ] || exit 1\n\
               echo 'QEMU emulator version 7.2.22 (Debian 1:7.2)'\n";
    let qemu = Qemu::at(&program(folder.path(), old)).unwrap();
    assert_eq!(qemu.version().to_string(), "7.2.22");
    assert!(!qemu.sandbox());
    let error = qemu.require_exact().unwrap_err().to_string();
    assert!(error.contains("7.2.22"), "{error}");
    assert!(error.contains("needs 8.1.0 or newer"), "{error}");
    assert!(error.contains("bookworm-backports"), "{error}");
}

#[test]
fn what_is_not_qemu_is_told_apart() {
    let folder = tempfile::tempdir().unwrap();
    let missing = Qemu::at(&folder.path().join("missing")).unwrap_err();
    assert!(matches!(missing, QemuError::Unusable { .. }), "{missing}");

    let plain = folder.path().join("plain");
    fs::write(&plain, "x").unwrap();
    let plain = Qemu::at(&plain).unwrap_err();
    assert!(matches!(plain, QemuError::NotExecutable { .. }), "{plain}");

    let other = Qemu::at(&program(folder.path(), "#!/bin/sh\necho hello\n")).unwrap_err();
    assert!(other.to_string().ends_with("said \"hello\\n\""), "{other}");
    let failing = Qemu::at(&program(folder.path(), "#!/bin/sh\nexit 3\n")).unwrap_err();
    assert!(
        failing.to_string().contains("failed or did not end"),
        "{failing}"
    );
}

#[test]
fn missing_firmware_is_reported_in_qemus_words() {
    let folder = tempfile::tempdir().unwrap();
    let head = "#!/bin/sh\ncase $* in *--version*) echo QEMU emulator version 10.0.2; exit;; \
                *sandbox*) exit 1;; esac\n";
    for (body, expected) in [
        (
            "echo \"qemu: could not load PC BIOS 'bios-256k.bin'\" >&2; exit 1",
            "PC BIOS",
        ),
        (
            "echo \"Could not open option rom 'pvh.bin': gone\" >&2; exit 0",
            "pvh.bin",
        ),
        (
            "echo 'rom: file pvh.bin             : error Failed to open file' >&2; exit 0",
            "rom: file pvh.bin : error",
        ),
    ] {
        let path = program(folder.path(), &format!("{head}# {expected}\n{body}\n"));
        let error = Qemu::at(&path).unwrap().check_firmware().unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
    }
    let warns = "echo 'rom: file kvmvapic.bin : error' >&2; exit 0";
    let path = program(folder.path(), &format!("{head}{warns}\n"));
    Qemu::at(&path).unwrap().check_firmware().unwrap();
    Qemu::find(&Environment::read())
        .unwrap()
        .check_firmware()
        .unwrap();
}

#[test]
fn a_changed_file_is_asked_again() {
    let folder = tempfile::tempdir().unwrap();
    let say = |version: &str| format!("#!/bin/sh\necho 'QEMU emulator version {version}'\n");
    let path = program(folder.path(), &say("9.0.0"));
    assert_eq!(Qemu::at(&path).unwrap().version().major, 9);
    let path = program(folder.path(), &say("10.0.0"));
    assert_eq!(Qemu::at(&path).unwrap().version().major, 10);
}
