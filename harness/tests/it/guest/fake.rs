//! A QEMU that misbehaves, played by a script.

use numalab::environment::Environment;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};
use std::time::Instant;

use numalab::guest::deadline::{GuestStage, Waited};
use numalab::guest::outcome::End;
use numalab::guest::qmp::Closed;
use numalab::guest::records::RecordsError;

use super::*;

/// What every script begins with: the answers that `Qemu` asks for, and the monitor's
/// greeting.
const HEAD: &str = r#"#!/usr/bin/env bash
case "$1" in
    --version) echo "QEMU emulator version 10.0.2 (fake)"; exit ;;
    -sandbox) exit 1 ;;
esac
[[ "$*" =~ monitor,fd=([0-9]+) ]] && fd=${BASH_REMATCH[1]}
[[ "$*" =~ id=console,path=([^ ]+) ]] && console=${BASH_REMATCH[1]}
[[ "$*" =~ id=records,path=([^ ]+) ]] && records=${BASH_REMATCH[1]}
say() { echo "$1" >&"$fd"; }
greet() {
    say '{"QMP":{"version":{"qemu":{"micro":2,"minor":0,"major":10},"package":""},"capabilities":["oob"]}}'
    read -r -u "$fd" _
    say '{"return":{}}'
}
end() {
    say '{"event":"SHUTDOWN","data":{"guest":true,"reason":"'"$1"'"},"timestamp":{"seconds":1,"microseconds":2}}'
    say '{"event":"STOP","timestamp":{"seconds":1,"microseconds":2}}'
    while :; do sleep 1; done
}
"#;

fn fake(folder: &Folder, body: &str) -> Qemu {
    let path = folder.path().join("qemu");
    fs::write(&path, format!("{HEAD}{body}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    Qemu::at(&path).unwrap()
}

async fn play(body: &str) -> Ran {
    play_within(body, PATIENT).await
}

async fn play_within(body: &str, limit: StageLimit) -> Ran {
    let folder = Folder::new();
    let qemu = fake(&folder, body);
    let limits = Limits {
        console: 64 * 1024,
        records: 4 * 1024 * 1024,
    };
    fs::write(folder.path().join("course"), lines(&idle_course())).unwrap();
    run(&qemu, &folder.boot(), limit, limits).await
}

#[tokio::test]
async fn an_exit_at_once_is_noticed_at_once() {
    let start = Instant::now();
    let ran = play("echo 'qemu: cannot set up guest memory' >&2; exit 134").await;
    let outcome = ran.outcome();
    assert_eq!(
        outcome.end.to_string(),
        "QEMU ended before its guest, with exit status 134: qemu: cannot set up guest memory"
    );
    // A tool that waits for the socket alone takes its whole patience.
    assert!(
        start.elapsed() < Duration::from_secs(30),
        "{:?}",
        start.elapsed()
    );
}

#[tokio::test]
async fn an_abort_is_told_by_its_signal() {
    let ran = play("greet; kill -ABRT $$").await;
    assert_eq!(
        ran.outcome().end.to_string(),
        "QEMU ended before its guest, with signal 6"
    );
}

#[tokio::test]
async fn a_whole_course_is_told_as_it_goes() {
    let ran =
        play("greet; cat \"${records%records}course\" >\"$records\"; end guest-shutdown").await;
    let outcome = ran.outcome();
    assert!(outcome.is_whole(), "{}", outcome.end);
    assert_eq!(outcome.records, idle_course());
    assert_eq!(outcome.stage, GuestStage::PowerOff);
    let stages = ran.told.iter().filter(|told| told.starts_with("stage"));
    assert_eq!(
        stages.collect::<Vec<_>>(),
        ["stage window", "stage plan", "stage power off"]
    );
}

#[tokio::test]
async fn one_that_ignores_sigterm_is_gone_all_the_same() {
    let ran = play("trap '' TERM INT HUP; greet; end guest-shutdown").await;
    assert!(matches!(ran.outcome().end, End::PowerOff));
    assert!(!ran.outcome().is_whole(), "there is no last record");
}

#[tokio::test]
async fn one_that_ends_right_after_its_guest_is_no_failure() {
    let ran = play(
        "greet; say '{\"event\":\"SHUTDOWN\",\"data\":{\"guest\":true,\"reason\":\"guest-shutdown\"}}'; exit 0",
    )
    .await;
    assert!(
        matches!(ran.outcome().end, End::PowerOff),
        "{}",
        ran.outcome().end
    );
}

#[tokio::test]
async fn a_guest_that_ends_within_a_record_has_no_result() {
    let ran =
        play("greet; head -c 30 \"${records%records}course\" >\"$records\"; end guest-shutdown")
            .await;
    let end = &ran.outcome().end;
    assert!(
        matches!(end, End::Records(RecordsError::Cut { .. })),
        "{end}"
    );
}

#[tokio::test]
async fn a_lost_record_ends_the_guest() {
    let ran =
        play("greet; sed 2d \"${records%records}course\" >\"$records\"; while :; do sleep 1; done")
            .await;
    let outcome = ran.outcome();
    assert_eq!(
        outcome.end.to_string(),
        "the guest's records are damaged: record 1 is missing: record 2 came instead"
    );
    assert_eq!(outcome.records.len(), 1);
}

#[tokio::test]
async fn records_without_end_end_the_guest() {
    let ran = play("greet; while :; do head -c 65536 /dev/zero >>\"$records\"; done").await;
    let end = &ran.outcome().end;
    assert!(matches!(end, End::Records(RecordsError::TooLong)), "{end}");
}

#[tokio::test]
async fn a_console_without_end_ends_the_guest() {
    let ran =
        play("greet; while :; do echo '[    1.000000] BUG: again' >>\"$console\"; done").await;
    let outcome = ran.outcome();
    assert!(
        matches!(outcome.end, End::TooMuchOutput { limit: 65536, .. }),
        "{}",
        outcome.end
    );
    assert_eq!(outcome.console_faults.len(), 100);
}

#[tokio::test]
async fn one_that_closes_its_monitor_and_stays_is_ended() {
    let ran = play("greet; eval \"exec $fd>&-\"; while :; do sleep 1; done").await;
    let end = &ran.outcome().end;
    assert!(matches!(end, End::Monitor(Closed::End)), "{end}");
}

#[tokio::test]
async fn one_that_talks_garbage_is_ended() {
    let ran = play("greet; say 'Segmentation fault'; while :; do sleep 1; done").await;
    let end = &ran.outcome().end;
    assert!(matches!(end, End::Monitor(Closed::Garbage { .. })), "{end}");
}

#[tokio::test]
async fn a_guest_that_works_in_silence_is_stuck() {
    let limit = StageLimit::new(1, 100, 200);
    let ran = play_within("greet; while :; do :; done", limit).await;
    let end = &ran.outcome().end;
    let End::Stuck { stage, waited } = end else {
        panic!("{end}");
    };
    assert_eq!(*stage, GuestStage::Boot);
    assert!(matches!(waited, Waited::Silent { .. }), "{waited}");
}

#[tokio::test]
async fn a_guest_that_gets_nowhere_for_long_is_told_apart() {
    let limit = StageLimit::new(100, 100, 1);
    let ran = play_within("while :; do sleep 1; done", limit).await;
    let end = &ran.outcome().end;
    let End::Stuck { waited, .. } = end else {
        panic!("{end}");
    };
    assert!(matches!(waited, Waited::Wall { .. }), "{waited}");
}

#[tokio::test]
async fn one_that_never_answers_is_given_up_early() {
    let folder = Folder::new();
    let qemu = fake(&folder, "while :; do sleep 1; done");
    let deadlines = Deadlines {
        monitor: Duration::from_secs(1),
        ..Deadlines::STANDARD
    };
    let (boot, cancel) = (folder.boot(), CancellationToken::new());
    let run = lifecycle::run(&qemu, &boot, &deadlines, &Limits::STANDARD, |_| {}, cancel);
    let end = run.await.unwrap().end;
    assert_eq!(
        end.to_string(),
        "QEMU did not answer on its monitor within 1 seconds"
    );
}

#[tokio::test]
async fn one_that_lacks_what_loads_the_kernel_is_ended_with_its_own_words() {
    let ran = play(
        "greet; echo \"Could not open option rom 'pvh.bin': No such file\" >&2; \
         while :; do sleep 1; done",
    )
    .await;
    assert_eq!(
        ran.outcome().end.to_string(),
        "QEMU cannot run the guest: Could not open option rom 'pvh.bin': No such file"
    );
}

#[tokio::test]
async fn a_stop_without_reason_is_looked_into() {
    let ran = play(
        "greet; say '{\"event\":\"STOP\"}'; read -r -u \"$fd\" _; \
         say '{\"return\":{\"running\":false,\"status\":\"internal-error\"}}'; \
         while :; do sleep 1; done",
    )
    .await;
    assert_eq!(
        ran.outcome().end.to_string(),
        "QEMU cannot run the guest: it stopped with status internal-error"
    );
}

#[tokio::test]
async fn a_reset_after_a_panic_is_a_panic() {
    let panic = "[    1.000000] Kernel panic - not syncing: no init";
    let ran = play(&format!(
        "greet; echo '{panic}' >\"$console\"; end guest-reset"
    ))
    .await;
    assert!(matches!(ran.outcome().end, End::Panic));
    assert_eq!(
        ran.told,
        ["console_fault Kernel panic - not syncing: no init"]
    );
    assert_eq!(ran.outcome().last_lines, [panic]);
    let ran = play("greet; end guest-reset").await;
    assert!(matches!(ran.outcome().end, End::Reset));
}

#[tokio::test]
async fn a_qemu_that_somebody_ends_is_told_from_our_own_interruption() {
    let ran = play("greet; end host-signal").await;
    let end = &ran.outcome().end;
    assert!(matches!(end, End::Dismissed));
    assert!(end.to_string().contains("run it again"), "{end}");
}

#[tokio::test]
async fn a_cancelled_guest_is_gone() {
    let folder = Folder::new();
    let qemu = fake(&folder, "greet; while :; do :; done");
    let cancel = CancellationToken::new();
    let inner = cancel.clone();
    let mut pid = 0;
    let on_event = |event: GuestEvent<'_>| {
        if let GuestEvent::Started { pid: started } = event {
            pid = started;
            inner.cancel();
        }
    };
    let limits = Limits::STANDARD;
    let deadlines = deadlines(PATIENT);
    let boot = folder.boot();
    let run = lifecycle::run(&qemu, &boot, &deadlines, &limits, on_event, cancel);
    let outcome = run.await.unwrap();
    assert!(matches!(outcome.end, End::Cancelled));
    assert!(!is_alive(pid));
}

#[tokio::test]
async fn a_dropped_run_leaves_nothing() {
    let folder = Folder::new();
    let qemu = fake(&folder, "greet; while :; do :; done");
    let pid = std::cell::Cell::new(0);
    let on_event = |event: GuestEvent<'_>| {
        if let GuestEvent::Started { pid: started } = event {
            pid.set(started);
        }
    };
    let limits = Limits::STANDARD;
    let deadlines = deadlines(PATIENT);
    let boot = folder.boot();
    let cancel = CancellationToken::new();
    let run = lifecycle::run(&qemu, &boot, &deadlines, &limits, on_event, cancel);
    tokio::time::timeout(Duration::from_millis(300), run)
        .await
        .unwrap_err();
    let pid = pid.get();
    assert_ne!(pid, 0);
    tokio::task::spawn_blocking(move || await_dead_or_zombie(pid))
        .await
        .unwrap();
}

/// The runtime reaps a dropped child when it next has the time.
fn await_dead_or_zombie(pid: u32) {
    let mut waited = Duration::ZERO;
    let is_running = || {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat"));
        stat.is_ok_and(|stat| !stat.contains(") Z "))
    };
    while is_running() {
        std::thread::sleep(Duration::from_millis(10));
        waited += Duration::from_millis(10);
        assert!(waited < Duration::from_secs(60), "process {pid} lives on");
    }
}

#[tokio::test]
async fn what_cannot_be_started_is_told_before() {
    let folder = Folder::new();
    let qemu = fake(&folder, "exit 0");
    let refused = async |change: &dyn Fn(&mut Boot)| {
        let mut boot = folder.boot();
        change(&mut boot);
        let ran = run(&qemu, &boot, PATIENT, Limits::STANDARD).await;
        assert_eq!(ran.pid, None);
        ran.result.unwrap_err().to_string()
    };
    let text = refused(&|boot| boot.kernel = "/nonexistent/vmlinux".into()).await;
    assert_eq!(
        text,
        "the guest's kernel at /nonexistent/vmlinux cannot be read"
    );
    let text = refused(&|boot| boot.initrd = "/tmp".into()).await;
    assert_eq!(text, "the guest's initramfs at /tmp cannot be read");
    let text = refused(&|boot| boot.pages[3] = boot.kernel.clone()).await;
    assert!(
        text.starts_with("the guest's page of the plan at "),
        "{text}"
    );
    let text = refused(&|boot| boot.console = "/nonexistent/console".into()).await;
    assert_eq!(text, "/nonexistent/console cannot be used");
    let text = refused(&|boot| {
        let node = Node {
            cpus: 1,
            memory_mib: 512 * 1024,
        };
        boot.machine = Machine::new(vec![node], None, vec![]).unwrap();
    })
    .await;
    assert!(text.starts_with("the guest needs 524544 MiB"), "{text}");
}

/// The test plays both parts: started anew with this variable, it is the numalab that is
/// killed.
const PART: &str = "NUMALAB_TEST_FOLDER";

#[test]
fn a_guest_dies_with_a_numalab_that_is_killed() {
    if let Some(folder) = std::env::var_os(PART) {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let folder = Utf8PathBuf::try_from(std::path::PathBuf::from(folder)).unwrap();
        runtime.block_on(be_killed(folder));
        return;
    }
    let folder = Folder::new();
    let qemu = fake(
        &folder,
        "greet; echo $$ >\"$console.pid\"; while :; do :; done",
    );
    let mut numalab = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "guest::fake::a_guest_dies_with_a_numalab_that_is_killed",
        ])
        .env(PART, folder.path())
        .env("NUMALAB_QEMU", qemu.path())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut waited = Duration::ZERO;
    let pid = loop {
        let text = fs::read_to_string(folder.path().join("console.pid")).unwrap_or_default();
        if let Some(pid) = text.strip_suffix('\n') {
            break pid.parse().unwrap();
        }
        std::thread::sleep(Duration::from_millis(10));
        waited += Duration::from_millis(10);
        assert!(
            waited < Duration::from_secs(60),
            "the guest was never started"
        );
    };
    assert!(is_alive(pid));
    numalab.kill().unwrap();
    numalab.wait().unwrap();
    await_death(pid);
}

async fn be_killed(path: Utf8PathBuf) {
    let boot = Boot {
        pages: std::array::from_fn(|index| path.join(format!("page.{index}"))),
        kernel: path.join("kernel"),
        initrd: path.join("initrd"),
        console: path.join("console"),
        records: path.join("records"),
        ..Folder::new().boot()
    };
    let qemu = Qemu::find(&Environment::read()).unwrap();
    run(&qemu, &boot, PATIENT, Limits::STANDARD).await;
}
