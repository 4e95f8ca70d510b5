//! The real QEMU, with a kernel of some dozen instructions: what the monitor tells of each
//! end, without Linux.

use numalab::environment::Environment;
use numalab::guest::deadline::Waited;
use numalab::guest::outcome::End;

use super::*;

/// What the kernel does when it has said its lines.
#[derive(Debug, Clone, Copy)]
pub(super) enum Last {
    PowerOff,
    Reset,
    Panic,
    /// Waits with interrupts off.
    Halt,
    Spin,
}

pub(super) const CONSOLE: u16 = 0x3f8;
pub(super) const RECORDS: u16 = 0x2f8;

/// Where it is loaded.
const BASE: u32 = 0x10_0000;
const HEADERS: u32 = 64 + 2 * 56;

/// What it does before that.
#[derive(Debug, Clone, Copy)]
pub(super) enum Part<'a> {
    /// Writes to a UART.
    Say(u16, &'a str),
    /// Uses up so many instructions.
    Count(u32),
}

pub(super) fn kernel(console: &str, records: &str, last: Last) -> Vec<u8> {
    program(
        &[Part::Say(CONSOLE, console), Part::Say(RECORDS, records)],
        last,
    )
}

/// An ELF file with a PVH note (`XEN_ELFNOTE_PHYS32_ENTRY`): QEMU enters it in 32-bit mode,
/// without paging.
pub(super) fn program(parts: &[Part<'_>], last: Last) -> Vec<u8> {
    let entry = BASE + HEADERS + 28;
    let length = |part: &Part<'_>| match part {
        Part::Say(..) => 20,
        Part::Count(_) => 7,
    };
    // The texts lie behind the code, whose length depends on nothing but its parts.
    let length = parts.iter().map(length).sum::<usize>() + end(last).len();
    let mut text = entry + u32::try_from(length).unwrap();
    let (mut code, mut texts) = (Vec::new(), Vec::new());
    for part in parts {
        match part {
            Part::Say(port, said) => {
                let size = u32::try_from(said.len()).unwrap();
                code.push(0xbe); // mov esi, text
                code.extend(text.to_le_bytes());
                code.push(0xb9); // mov ecx, size
                code.extend(size.to_le_bytes());
                code.extend([0x66, 0xba]); // mov dx, port
                code.extend(port.to_le_bytes());
                code.extend([0xe3, 0x04]); // jecxz over the loop
                code.extend([0xac, 0xee, 0xe2, 0xfc]); // lodsb; out dx, al; loop
                text += size;
                texts.extend(said.bytes());
            }
            Part::Count(number) => {
                code.push(0xb9); // mov ecx, number
                code.extend(number.to_le_bytes());
                code.extend([0xe2, 0xfe]); // loop to itself
            }
        }
    }
    code.extend(end(last));
    assert_eq!(code.len(), length);
    code.extend(texts);
    elf(entry, &code)
}

fn end(last: Last) -> Vec<u8> {
    match last {
        // mov dx, 0x604; mov ax, 0x2000; out dx, ax: PM1a_CNT with SLP_EN; then jmp self.
        Last::PowerOff => vec![
            0x66, 0xba, 0x04, 0x06, 0x66, 0xb8, 0x00, 0x20, 0x66, 0xef, 0xeb, 0xfe,
        ],
        // mov dx, 0xcf9; mov al, 6; out dx, al; jmp self.
        Last::Reset => vec![0x66, 0xba, 0xf9, 0x0c, 0xb0, 0x06, 0xee, 0xeb, 0xfe],
        // The first BAR of PCI device 1 (mov eax, 0x80000810; mov dx, 0xcf8; out dx, eax;
        // mov dx, 0xcfc; in eax, dx), then and al, 0xf0; mov byte [eax], 1; jmp self.
        Last::Panic => vec![
            0xb8, 0x10, 0x08, 0x00, 0x80, 0x66, 0xba, 0xf8, 0x0c, 0xef, 0x66, 0xba, 0xfc, 0x0c,
            0xed, 0x24, 0xf0, 0xc6, 0x00, 0x01, 0xeb, 0xfe,
        ],
        // cli; hlt; jmp back.
        Last::Halt => vec![0xfa, 0xf4, 0xeb, 0xfd],
        Last::Spin => vec![0xeb, 0xfe],
    }
}

fn elf(entry: u32, code: &[u8]) -> Vec<u8> {
    let size = u64::from(HEADERS) + 28 + code.len() as u64;
    let mut file = vec![0x7f, b'E', b'L', b'F', 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    // Executable, x86-64, version 1.
    file.extend([2, 0, 62, 0, 1, 0, 0, 0]);
    file.extend(u64::from(entry).to_le_bytes());
    file.extend(64_u64.to_le_bytes());
    file.extend(0_u64.to_le_bytes());
    file.extend(0_u32.to_le_bytes());
    for half in [64_u16, 56, 2, 64, 0, 0] {
        file.extend(half.to_le_bytes());
    }
    let mut segment = |kind: u32, flags: u32, offset: u64, length: u64| {
        file.extend(kind.to_le_bytes());
        file.extend(flags.to_le_bytes());
        let address = u64::from(BASE) + offset;
        for long in [offset, address, address, length, length, 4] {
            file.extend(long.to_le_bytes());
        }
    };
    segment(1, 7, 0, size);
    segment(4, 4, u64::from(HEADERS), 28);
    // Name and description of 4 and 8 bytes, kind 18.
    for word in [4_u32, 8, 18] {
        file.extend(word.to_le_bytes());
    }
    file.extend(b"Xen\0");
    file.extend(u64::from(entry).to_le_bytes());
    file.extend(0_u32.to_le_bytes());
    file.extend(code);
    file
}

async fn boot(console: &str, records: &str, last: Last, limit: StageLimit) -> Ran {
    let folder = Folder::new();
    fs::write(folder.path().join("kernel"), kernel(console, records, last)).unwrap();
    let qemu = Qemu::find(&Environment::read()).unwrap();
    run(&qemu, &folder.boot(), limit, Limits::STANDARD).await
}

#[tokio::test]
async fn a_guest_that_powers_off_has_run_its_course() {
    let records = lines(&idle_course());
    let ran = boot("hello\n", &records, Last::PowerOff, PATIENT).await;
    let outcome = ran.outcome();
    assert!(outcome.is_whole(), "{}", outcome.end);
    assert_eq!(outcome.records, idle_course());
    assert_eq!(outcome.last_lines, ["hello"]);
    assert_eq!(outcome.records_bytes, records.len() as u64);
    assert!(outcome.cpu.total() > Duration::ZERO);
}

#[tokio::test]
async fn a_guest_that_resets_is_told_apart() {
    let ran = boot("", "", Last::Reset, PATIENT).await;
    assert!(
        matches!(ran.outcome().end, End::Reset),
        "{}",
        ran.outcome().end
    );
}

#[tokio::test]
async fn a_panic_is_told_by_its_device() {
    let ran = boot("no word of it\n", "", Last::Panic, PATIENT).await;
    assert!(
        matches!(ran.outcome().end, End::Panic),
        "{}",
        ran.outcome().end
    );
}

#[tokio::test]
async fn a_guest_that_spins_is_stuck() {
    let ran = boot("", "", Last::Spin, StageLimit::new(2, 100, 200)).await;
    let end = &ran.outcome().end;
    let End::Stuck { waited, .. } = end else {
        panic!("{end}");
    };
    assert!(matches!(waited, Waited::Silent { .. }), "{waited}");
}

#[tokio::test]
async fn a_guest_that_halts_for_ever_runs_into_the_backstop() {
    let ran = boot("", "", Last::Halt, StageLimit::new(100, 100, 3)).await;
    let end = &ran.outcome().end;
    let End::Stuck { waited, .. } = end else {
        panic!("{end}");
    };
    assert!(matches!(waited, Waited::Wall { .. }), "{waited}");
}

#[tokio::test]
async fn an_image_that_is_no_kernel_is_told_by_qemu() {
    let folder = Folder::new();
    let qemu = Qemu::find(&Environment::read()).unwrap();
    let ran = run(&qemu, &folder.boot(), PATIENT, Limits::STANDARD).await;
    let end = ran.outcome().end.to_string();
    let expected = "QEMU ended before its guest, with exit status 1: ";
    assert!(end.starts_with(expected), "{end}");
}

#[tokio::test]
async fn the_command_line_for_a_person_runs_the_same_guest() {
    use numalab::guest::argv::{HostOptions, Monitor, arguments};

    let folder = Folder::new();
    let records = lines(&idle_course());
    fs::write(
        folder.path().join("kernel"),
        kernel("", &records, Last::PowerOff),
    )
    .unwrap();
    let surroundings = HostOptions {
        sandbox: false,
        monitor: Monitor::Nobody,
    };
    let mut command =
        tokio::process::Command::new(Qemu::find(&Environment::read()).unwrap().path());
    command
        .args(arguments(&folder.boot(), surroundings))
        .kill_on_drop(true);
    let status = tokio::time::timeout(Duration::from_secs(120), command.status());
    assert!(status.await.unwrap().unwrap().success());
    assert_eq!(
        fs::read_to_string(folder.path().join("records")).unwrap(),
        records
    );
}
