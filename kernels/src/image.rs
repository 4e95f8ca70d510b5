//! Kernel images: told by their content, never by their name.
//!
//! Two kinds boot: a `vmlinux` with the PVH entry's note (which QEMU's `-kernel`
//! looks for) and a `bzImage`. It is not found out here whether one really boots.

pub(crate) mod module;
pub(crate) mod payload;

use std::fs::File;
use std::io::{self, Read, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error_kind::ErrorKind;
use crate::files;

/// What kind of image a file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ImageKind {
    /// An ELF file with a PVH entry.
    Vmlinux,
    /// The boot protocol's form.
    BzImage,
}

/// What is known of an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    /// Its kind.
    pub kind: ImageKind,
    /// The kernel's release as the image has it, for instance `6.12.117`.
    pub release: Option<String>,
}

/// Why a file is no kernel image.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    /// It cannot be read.
    #[error("cannot read the image {path:?}")]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// It is something else.
    #[error("{path:?} is no kernel that can be booted: {why}")]
    NoKernel {
        /// The file.
        path: PathBuf,
        /// What it is, and what would do.
        why: String,
    },
    /// A module that lies with it is another kernel's.
    #[error(
        "the module {module} that lies with {path:?} is for the kernel {built_for}, and this kernel \
         is {release}: give the image and the modules of one build"
    )]
    Module {
        /// The image or package.
        path: PathBuf,
        /// The module.
        module: String,
        /// The release that it is for.
        built_for: String,
        /// The image's release.
        release: String,
    },
}

impl ImageError {
    pub(crate) fn kind(&self) -> ErrorKind {
        ErrorKind::Input
    }
}

/// `XEN_ELFNOTE_PHYS32_ENTRY` of `include/xen/interface/elfnote.h`.
const PVH_NOTE: u32 = 18;

/// Tells what a file is.
pub fn inspect(path: &Path) -> Result<Image, ImageError> {
    let read = |source| ImageError::Read {
        path: path.to_owned(),
        source,
    };
    let mut file = files::open(path).map_err(read)?;
    let length = file.metadata().map_err(read)?.len();
    let mut head = Vec::new();
    Read::by_ref(&mut file)
        .take(64 * 1024)
        .read_to_end(&mut head)
        .map_err(read)?;
    let kind = identify(&head, &mut file, length).map_err(|why| ImageError::NoKernel {
        path: path.to_owned(),
        why,
    })?;
    let release = match kind {
        ImageKind::BzImage => boot_version(&head),
        ImageKind::Vmlinux => banner(&mut file).map_err(read)?,
    };
    Ok(Image { kind, release })
}

fn identify(head: &[u8], file: &mut File, length: u64) -> Result<ImageKind, String> {
    if head.is_empty() {
        return Err("the file is empty".to_owned());
    }
    if head.starts_with(b"\x7fELF") {
        return elf(head, file, length).map(|()| ImageKind::Vmlinux);
    }
    if head.get(0x1fe..0x200) == Some(&[0x55, 0xaa]) && head.get(0x202..0x206) == Some(b"HdrS") {
        whole(length, boot_length(head))?;
        return Ok(ImageKind::BzImage);
    }
    let looks = [
        (
            &b"\x1f\x8b"[..],
            "gzip data: an initramfs, or a kernel of another architecture",
        ),
        (b"\xfd7zXZ\0", "xz data: unpack it first"),
        (b"\x28\xb5\x2f\xfd", "zstd data: unpack it first"),
        (b"070701", "a cpio archive (an initramfs)"),
        (
            b"!<arch>\ndebian-binary",
            "a Debian package, and its name does not end in .deb",
        ),
        (b"!<arch>\n", "a static library"),
        (
            b"\xed\xab\xee\xdb",
            "an RPM package: unpack it (rpm2cpio) and give its vmlinuz",
        ),
        (b"QFI\xfb", "a disk image"),
        (b"#!", "a script"),
        (b"From ", "a patch: write KERNEL+PATCH"),
        (b"diff ", "a patch: write KERNEL+PATCH"),
        (b"--- ", "a patch: write KERNEL+PATCH"),
    ];
    let what = looks
        .iter()
        .find(|(magic, _)| head.starts_with(magic))
        .map_or(
            "neither an ELF file nor one of the boot protocol",
            |(_, what)| what,
        );
    Err(format!(
        "it is {what}; a vmlinux or a bzImage for x86-64 is expected"
    ))
}

/// Checks that a file has as many bytes as its own headers say.
fn whole(length: u64, expected: Option<u64>) -> Result<(), String> {
    match expected {
        Some(expected) if length < expected => Err(format!(
            "it is cut off: it has {length} of {expected} bytes; copy or build it again"
        )),
        _ => Ok(()),
    }
}

/// The least length of a bzImage: `setup_sects` and `syssize` of
/// `Documentation/arch/x86/boot.rst`.
fn boot_length(head: &[u8]) -> Option<u64> {
    // 0 stands for 4.
    let sectors = match *head.get(0x1f1)? {
        0 => 4,
        sectors => u64::from(sectors),
    };
    let system = u64::from(u32_at(head, 0x1f4)?) * 16;
    // The last paragraph need not be whole.
    Some((sectors + 1) * 512 + system.saturating_sub(16))
}

/// Whether an ELF file is a kernel with a PVH entry.
fn elf(head: &[u8], file: &mut File, length: u64) -> Result<(), String> {
    let short = || "it is cut off within its ELF header; copy or build it again".to_owned();
    let (kind, order) = (
        head.get(4).ok_or_else(short)?,
        head.get(5).ok_or_else(short)?,
    );
    let machine = u16_at(head, 18).ok_or_else(short)?;
    if (*kind, *order, machine) != (2, 1, 62) {
        return Err("it is an ELF file, but not for x86-64".to_owned());
    }
    match u16_at(head, 16).ok_or_else(short)? {
        1 => return Err("it is an object file or a kernel module".to_owned()),
        4 => return Err("it is a memory dump".to_owned()),
        _ => {}
    }
    let table = usize::try_from(u64_at(head, 32).ok_or_else(short)?).unwrap_or(usize::MAX);
    let size = usize::from(u16_at(head, 54).ok_or_else(short)?);
    let count = usize::from(u16_at(head, 56).ok_or_else(short)?);
    let sections = u64::from(u16_at(head, 58).ok_or_else(short)?)
        * u64::from(u16_at(head, 60).ok_or_else(short)?);
    let sections_at = u64_at(head, 40).ok_or_else(short)?;
    whole(length, sections_at.checked_add(sections))?;
    for index in 0..count {
        let at = table.saturating_add(index.saturating_mul(size));
        let kind = u32_at(head, at).ok_or_else(short)?;
        let offset = u64_at(head, at + 8).ok_or_else(short)?;
        let size = u64_at(head, at + 32).ok_or_else(short)?;
        whole(length, offset.checked_add(size))?;
        // PT_NOTE
        if kind != 4 {
            continue;
        }
        let mut notes = Vec::new();
        let read = file.seek(SeekFrom::Start(offset)).and_then(|_| {
            Read::by_ref(file)
                .take(size.min(64 * 1024))
                .read_to_end(&mut notes)
        });
        if read.is_ok() && has_pvh(&notes) {
            return Ok(());
        }
    }
    Err(
        "it is an ELF file without the PVH entry's note: a kernel built without CONFIG_PVH (give \
         its bzImage), or no kernel at all"
            .to_owned(),
    )
}

fn has_pvh(mut notes: &[u8]) -> bool {
    loop {
        let (Some(name), Some(value), Some(kind)) =
            (u32_at(notes, 0), u32_at(notes, 4), u32_at(notes, 8))
        else {
            return false;
        };
        let (Ok(name), Ok(value)) = (usize::try_from(name), usize::try_from(value)) else {
            return false;
        };
        if kind == PVH_NOTE && notes.get(12..12 + 4) == Some(b"Xen\0") && name == 4 {
            return true;
        }
        let next = name
            .checked_next_multiple_of(4)
            .zip(value.checked_next_multiple_of(4))
            .and_then(|(name, value)| name.checked_add(value)?.checked_add(12));
        match next.and_then(|next| notes.get(next..)) {
            Some(rest) => notes = rest,
            None => return false,
        }
    }
}

/// The release in a bzImage: `kernel_version` of `Documentation/arch/x86/boot.rst`.
fn boot_version(head: &[u8]) -> Option<String> {
    let at = usize::from(u16_at(head, 0x20e)?) + 0x200;
    let text = head.get(at..at + 200).or_else(|| head.get(at..))?;
    first_word(text)
}

/// The release in the text "Linux version 6.12.117 (...)" (`init/version.c`).
fn banner(file: &mut File) -> io::Result<Option<String>> {
    const MARK: &[u8] = b"Linux version ";
    const REST: usize = 128;
    file.rewind()?;
    let mut piece = vec![0; 1024 * 1024];
    let mut window: Vec<u8> = Vec::new();
    loop {
        let count = file.read(&mut piece)?;
        window.extend_from_slice(&piece[..count]);
        let mut from = 0;
        while let Some(at) = find(&window[from..], MARK) {
            let begin = from + at + MARK.len();
            if begin + REST > window.len() && count != 0 {
                break;
            }
            let text = &window[begin..window.len().min(begin + REST)];
            // Format strings have the same beginning.
            if text.first().is_some_and(u8::is_ascii_digit) {
                return Ok(first_word(text));
            }
            from = begin;
        }
        if count == 0 {
            return Ok(None);
        }
        let keep = window.len().saturating_sub(MARK.len() + REST);
        window.drain(..keep);
    }
}

fn find(text: &[u8], what: &[u8]) -> Option<usize> {
    let first = *what.first()?;
    let mut from = 0;
    while let Some(at) = text[from..].iter().position(|byte| *byte == first) {
        if text[from + at..].starts_with(what) {
            return Some(from + at);
        }
        from += at + 1;
    }
    None
}

fn first_word(text: &[u8]) -> Option<String> {
    let end = text
        .iter()
        .position(|byte| !byte.is_ascii_graphic())
        .unwrap_or(text.len());
    (end > 0).then(|| String::from_utf8_lossy(&text[..end]).into_owned())
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(
        bytes.get(at..at.checked_add(2)?)?.try_into().ok()?,
    ))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(
        bytes.get(at..at.checked_add(4)?)?.try_into().ok()?,
    ))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(
        bytes.get(at..at.checked_add(8)?)?.try_into().ok()?,
    ))
}
