//! The place of a fault, in words that two builds of almost the same source share.

use std::sync::LazyLock;

use regex::{Captures, Regex};

use crate::guest::console::ConsoleFault;
use crate::guest::fault_kind::FaultKind;

/// How many functions of a trace name a place.
const FRAMES: usize = 5;

/// How many of a leak's, from the one that allocated on: how the kernel was entered differs
/// from time to time.
const OWNERS: usize = 2;

/// The place of a fault.
pub(super) fn of(console_fault: &ConsoleFault) -> String {
    let message = plain(&console_fault.message);
    match console_fault.kind {
        FaultKind::Warning => warning(console_fault).unwrap_or(message),
        FaultKind::Lockdep => with(message, locks(console_fault), console_fault),
        FaultKind::Leak => with(
            size(&console_fault.message),
            owners(console_fault),
            console_fault,
        ),
        FaultKind::Oops | FaultKind::Bug => {
            with(message, instruction(console_fault), console_fault)
        }
        // How many were lost differs from run to run.
        FaultKind::LostMessages => String::new(),
        _ => message,
    }
}

/// `WARN` names its file and function; what it was given to say stands before it. Two of a
/// function without words of their own count as one.
fn warning(console_fault: &ConsoleFault) -> Option<String> {
    static FORMS: LazyLock<Regex> = LazyLock::new(|| {
        // Without CONFIG_DEBUG_BUGVERBOSE there is no file.
        let text = r"^WARNING: (?:CPU: \d+ PID: \d+ at )?(?:(\S+?):\d+ )?(?:at )?([\w.]+)\+0x";
        Regex::new(text).expect("a constant, compiled by a test")
    });
    let found = FORMS.captures(&console_fault.message)?;
    let words = plain(&console_fault.heading);
    let file = found.get(1).map_or("", |name| file(name.as_str()));
    let place = format!("{file} {}", function(&found[2]));
    let place = place.trim_start().to_owned();
    Some(if words.is_empty() {
        place
    } else {
        format!("{place}: {words}")
    })
}

/// A message with the functions that the fault is about, or with those of its trace.
fn with(message: String, named: Vec<String>, console_fault: &ConsoleFault) -> String {
    let named = if named.is_empty() {
        frames(console_fault)
    } else {
        named
    };
    if named.is_empty() {
        message
    } else {
        format!("{message}: {}", named.join(" < "))
    }
}

/// The locks that lockdep's report begins with, each with the function that takes it; or the
/// place of an RCU use.
fn locks(console_fault: &ConsoleFault) -> Vec<String> {
    static LOCK: LazyLock<Regex> = LazyLock::new(|| {
        let text = r"^\s*[0-9a-f]{16} \((.+?)\)\{[^}]*\}(?:-\{\S+\})?, at: ([\w.]+)\+0x|^(\S+):\d+ suspicious ";
        Regex::new(text).expect("a constant, compiled by a test")
    });
    let lines = console_fault.excerpt.lines().map(message);
    let named = lines.filter_map(|line| {
        let found = LOCK.captures(line)?;
        Some(match (found.get(1), found.get(2), found.get(3)) {
            (Some(lock), Some(at), _) => {
                format!("{} in {}", lock.as_str(), function(at.as_str()))
            }
            (_, _, Some(place)) => file(place.as_str()).to_owned(),
            _ => return None,
        })
    });
    named.take(2).collect()
}

/// The function of the instruction that faulted.
fn instruction(console_fault: &ConsoleFault) -> Vec<String> {
    static RIP: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r"^RIP: [0-9a-f]+:([\w.]+)\+0x").expect("a constant, compiled by a test")
    });
    let mut lines = console_fault.excerpt.lines().map(message);
    let found = lines.find_map(|line| RIP.captures(line));
    found
        .map(|found| function(&found[1]).to_owned())
        .into_iter()
        .collect()
}

/// The innermost functions of the trace, without those that print it.
fn frames(console_fault: &ConsoleFault) -> Vec<String> {
    let prints = |name: &String| {
        matches!(
            name.as_str(),
            "dump_stack_lvl" | "dump_stack" | "show_stack" | "print_report" | "kasan_report"
        )
    };
    functions(console_fault)
        .filter(|name| !prints(name))
        .take(FRAMES)
        .collect()
}

/// The functions of the trace, the innermost first.
fn functions(console_fault: &ConsoleFault) -> impl Iterator<Item = String> {
    static FRAME: LazyLock<Regex> = LazyLock::new(|| {
        let text = r"^\s*(?:\[<[0-9a-f]+>\] )?([\w.]+)\+0x[0-9a-f]+/0x[0-9a-f]+";
        Regex::new(text).expect("a constant, compiled by a test")
    });
    let lines = console_fault.excerpt.lines().map(message);
    lines.filter_map(|line| {
        let found = FRAME.captures(line)?;
        Some(function(&found[1]).to_owned())
    })
}

/// Who allocated what is leaked: the innermost functions that are not the allocator's.
fn owners(console_fault: &ConsoleFault) -> Vec<String> {
    const ALLOCATORS: [&str; 6] = [
        "kmemleak_",
        "__kmalloc",
        "kmalloc",
        "kmem_cache_alloc",
        "__kmem_cache",
        "kvmalloc",
    ];
    let is_allocator = |name: &String| ALLOCATORS.iter().any(|start| name.starts_with(start));
    let named = functions(console_fault).filter(|name| !is_allocator(name));
    named.take(OWNERS).collect()
}

fn size(message: &str) -> String {
    static SIZE: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"\(size (\d+)\)").expect("a constant, compiled by a test"));
    match SIZE.captures(message) {
        Some(found) => format!("{} bytes", &found[1]),
        None => plain(message),
    }
}

/// A line of an excerpt without its time stamp and caller.
pub(crate) fn message(line: &str) -> &str {
    static STAMP: LazyLock<Regex> = LazyLock::new(|| {
        let text = r"^(?:<\d{1,3}>)?\[ *\d+\.\d{6}\](?:\[ *[TC]\d+\])? ?";
        Regex::new(text).expect("a constant, compiled by a test")
    });
    match STAMP.find(line) {
        Some(stamp) => &line[stamp.end()..],
        None => line,
    }
}

/// A function without what compilers append to a part or a copy of one.
fn function(name: &str) -> &str {
    name.split('.').next().unwrap_or(name)
}

/// A file's name without the folder that it was built from.
fn file(name: &str) -> &str {
    name.trim_start_matches("./").trim_start_matches("../")
}

/// A message without what differs from kernel to kernel and from run to run.
pub(crate) fn plain(text: &str) -> String {
    static VARYING: LazyLock<Regex> = LazyLock::new(|| {
        let text = concat!(
            // Offsets into functions; the place of a line.
            r"(?P<offset>\+0x[0-9a-f]+/0x[0-9a-f]+)",
            r"|(?P<place>\.[chS]:\d+(?::\d+)?)",
            // Addresses and other long numbers.
            r"|(?P<hex>\b0x[0-9a-f]+\b|\b[0-9a-f]{8,}\b)",
            // Processes and CPUs by their numbers.
            r"|(?P<named>\b(?i:cpu|pid|tgid|cpus)(?:[:=# ]|: )#?\d+)",
            r"|(?P<task>\b[\w.:-]+/\d+(?:/\d+)*\b)",
            // Times, counts of them, and the number of an oops.
            r"|(?P<time>\b\d+(?:\.\d+)?(?P<unit> ?(?:s|ms|us|ns|sec|secs|seconds|jiffies)\b))",
            r"|(?P<equal>\b(?:t|g|q|c|pfn|val|ref|jiffies)[=:]-?\w+)",
            r"|(?P<number>\[#\d+\])",
        );
        Regex::new(text).expect("a constant, compiled by a test")
    });
    let plain = VARYING.replace_all(text, |found: &Captures<'_>| {
        let is = |name: &str| found.name(name).map(|part| part.as_str());
        if let Some(place) = is("place") {
            place[..2].to_owned()
        } else if let Some(named) = is("named") {
            let digit = |c: char| c.is_ascii_digit();
            format!("{}#", named.trim_end_matches(digit).trim_end_matches('#'))
        } else if let Some(task) = is("task") {
            format!("{}/#", task.split('/').next().unwrap_or_default())
        } else if is("time").is_some() {
            format!("#{}", is("unit").unwrap_or_default())
        } else if is("offset").or(is("number")).is_some() {
            String::new()
        } else {
            "#".to_owned()
        }
    });
    plain.split_whitespace().collect::<Vec<_>>().join(" ")
}
