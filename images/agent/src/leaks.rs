//! Memory leaks of the kernel: prints kmemleak's report on the console, where the host looks
//! for faults.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::thread;
use std::time::Duration;

use crate::file::{self, FileError};

/// kmemleak's file (`mm/kmemleak.c`).
const KMEMLEAK: &str = "/sys/kernel/debug/kmemleak";

/// An object younger than 5 seconds is not reported yet (`MSECS_MIN_AGE`).
const AGE: Duration = Duration::from_secs(6);

/// kmemleak reports an object that has not changed since the previous scan
/// (`update_checksum`).
const SCANS: u32 = 2;

/// The kernel parameter that makes a kmemleak that is off an error.
const REQUIRED: &str = "kmemleak=on";

/// Whether the kernel has kmemleak.
pub(crate) fn are_detected() -> bool {
    Path::new(KMEMLEAK).exists()
}

/// Lets kmemleak scan, and prints what it found, once per allocation site. A kmemleak that
/// is off is an error only if the kernel's command line requires it.
pub(crate) fn report() -> Result<(), FileError> {
    if !are_detected() {
        return Ok(());
    }
    thread::sleep(AGE);
    for _ in 0..SCANS {
        match file::write(KMEMLEAK, "scan") {
            Err(error) if is_refused(&error) && !is_required()? => return Ok(()),
            other => other?,
        }
    }
    for leak in leaks(&file::read(KMEMLEAK)?) {
        // Whole lines only, because the kernel's own lines come in between.
        eprint!("{leak}");
    }
    Ok(())
}

/// A kmemleak that is off returns `EPERM` (`kmemleak_write`).
fn is_refused(error: &FileError) -> bool {
    matches!(error, FileError::Write { cause, .. }
        if cause.kind() == io::ErrorKind::PermissionDenied)
}

fn is_required() -> Result<bool, FileError> {
    let words = file::read("/proc/cmdline")?;
    Ok(words.split_whitespace().any(|word| word == REQUIRED))
}

/// The first object of each allocation site, with the number of the others.
fn leaks(report: &str) -> Vec<String> {
    let mut order: Vec<String> = Vec::new();
    let mut places: BTreeMap<String, (String, u64)> = BTreeMap::new();
    let mut object = String::new();
    let mut take = |object: &mut String| {
        if object.is_empty() {
            return;
        }
        let place = place(object);
        let known = places.entry(place.clone()).or_insert_with(|| {
            order.push(place);
            (object.clone(), 0)
        });
        known.1 += 1;
        object.clear();
    };
    for line in report.lines() {
        if line.starts_with("unreferenced object ") {
            take(&mut object);
        }
        object.push_str(line);
        object.push('\n');
    }
    take(&mut object);
    let printed = order.iter().filter_map(|place| {
        let (object, count) = places.get(place)?;
        Some(match count {
            1 => object.clone(),
            count => format!("{object}  and {} more of this place\n", count - 1),
        })
    });
    printed.collect()
}

/// An object's size and backtrace.
fn place(object: &str) -> String {
    let mut lines = object.lines();
    let size = lines.next().and_then(|line| line.split_once('('));
    let trace = lines.skip_while(|line| !line.trim_start().starts_with("backtrace"));
    let trace: Vec<&str> = trace.skip(1).collect();
    format!("{} {}", size.map_or("", |(_, size)| size), trace.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(address: &str, size: u32, caller: &str) -> String {
        format!(
            "unreferenced object 0x{address} (size {size}):\n\
             \x20 comm \"task\", pid 71, jiffies 4294892318\n\
             \x20 hex dump (first 32 bytes):\n\
             \x20   00 00 00 00 00 00 00 00  ........\n\
             \x20 backtrace (crc 0):\n\
             \x20   [<00000000f8a9f9d5>] __kmalloc_cache_noprof+0x12/0x34\n\
             \x20   [<00000000f8a9f9d6>] {caller}+0x12/0x34\n"
        )
    }

    #[test]
    fn each_site_is_printed_once() {
        let report = [
            object("ffff888000000000", 64, "a"),
            object("ffff888000000040", 64, "b"),
            object("ffff888000000080", 64, "a"),
            object("ffff8880000000c0", 32, "a"),
        ]
        .concat();
        let printed = leaks(&report);
        assert_eq!(printed.len(), 3);
        assert!(printed[0].ends_with("a+0x12/0x34\n  and 1 more of this place\n"));
        assert_eq!(printed[1], object("ffff888000000040", 64, "b"));
        assert!(printed[2].contains("(size 32)"));
        assert_eq!(leaks(""), [""; 0]);
    }
}
