use std::time::Duration;

use super::*;
use crate::guest::console::Suppressed;
use crate::guest::deadline::GuestStage;
use crate::guest::process::CpuTime;

fn outcome(end: End, console_bytes: u64) -> Outcome {
    Outcome {
        end,
        stage: GuestStage::Boot,
        records: vec![],
        console_faults: vec![],
        suppressed: Suppressed::default(),
        last_lines: vec![],
        console_bytes,
        records_bytes: 0,
        wall: Duration::ZERO,
        cpu: CpuTime::default(),
    }
}

fn stuck(waited: Waited) -> End {
    let stage = GuestStage::Boot;
    End::Stuck { stage, waited }
}

#[test]
fn a_busy_host_gives_no_answer() {
    let wall = Duration::from_secs(15);
    let cpu = Duration::from_secs(2);
    let busy = outcome(stuck(Waited::Wall { wall, cpu }), 0);
    assert!(matches!(judge(&busy), Finding::Unclear(_)));
    let cpu = Duration::from_secs(14);
    let silent = outcome(stuck(Waited::Wall { wall, cpu }), 0);
    let Finding::Unusable(reason) = judge(&silent) else {
        panic!("a silent guest is a finding");
    };
    assert_eq!(reason, "a guest runs and never prints a character");
}

#[test]
fn an_abort_is_told_with_what_qemu_said() {
    let end = End::QemuExit {
        how: "signal 6".into(),
        stderr: "error: failed to set MSR 0x10a\nqemu: Assertion failed\n".into(),
    };
    let Finding::Unusable(reason) = judge(&outcome(end, 0)) else {
        panic!("an abort is a finding");
    };
    assert_eq!(
        reason,
        "QEMU ended before its guest, with signal 6: error: failed to set MSR 0x10a"
    );
}

#[test]
fn what_may_pass_is_no_answer() {
    for (how, stderr) in [
        (
            "exit status 1",
            "ioctl(KVM_CREATE_VM) failed: 16 Device or resource busy\n",
        ),
        ("exit status 1", "qemu: Cannot allocate memory\n"),
        ("signal 9", ""),
    ] {
        let (how, stderr) = (how.into(), stderr.into());
        let finding = judge(&outcome(End::QemuExit { how, stderr }, 0));
        assert!(matches!(finding, Finding::Unclear(_)));
    }
}

#[test]
fn a_device_that_does_not_open_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let reason = open(&folder.path().join("kvm")).unwrap_err();
    assert!(reason.starts_with("there is no "), "{reason}");
    let reason = open(folder.path()).unwrap_err();
    assert!(reason.contains("cannot be opened"), "{reason}");
}

#[test]
fn only_a_whole_answer_is_used() {
    let folder = tempfile::tempdir().unwrap();
    let place = Utf8PathBuf::try_from(folder.path().join("a")).unwrap();
    assert_eq!(cached(&place), None);
    for (text, expected) in [
        (
            "[1,{\"usable\":\"host\"}]",
            Some(Answer::Usable(KvmCpu::Host)),
        ),
        ("[2,{\"usable\":\"host\"}]", None),
        ("[1,{\"usable\":", None),
        ("[1,{\"unknown\":1}]", None),
    ] {
        fs::write(&place, text).unwrap();
        assert_eq!(cached(&place), expected, "{text}");
    }
}
