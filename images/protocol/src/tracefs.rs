//! The text format of tracefs (`Documentation/trace/ftrace.rst`, "Output format").

use crate::record::TraceEvent;

/// The name of the event that a write to `trace_marker` creates.
pub const MARK: &str = "tracing_mark_write";

/// The mark at the beginning of a measurement: this, then the measurement's name.
pub const BEGIN: &str = "begin ";

/// The mark at its end.
pub const END: &str = "end ";

/// Parses one line of `trace`; `None` if it is not an event, such as a comment.
///
/// ```text
///           <idle>-0       [000]    1234: sched_wakeup: comm=...
///   a name of a task-97    [001] .....  5: sched_skip_vma_numa: numa_scan_offset=0 ...
/// ```
///
/// The column of flags is optional (`irq-info`).
pub fn event(line: &str) -> Option<TraceEvent> {
    if line.starts_with('#') {
        return None;
    }
    // A task's name may contain anything; what follows has a fixed format.
    let (at, cpu) = cpu(line)?;
    let (task, rest) = (line[..at].trim(), &line[at..]);
    let (comm, pid) = task.rsplit_once('-')?;
    let (_, rest) = rest.split_once(']')?;
    let (time, rest) = rest.split_once(": ")?;
    // The flags, then the time.
    time.split_ascii_whitespace()
        .last()?
        .bytes()
        .all(|byte| byte.is_ascii_digit() || byte == b'.')
        .then_some(())?;
    // An event without fields ends with its colon.
    let (name, fields) = match rest.split_once(':') {
        Some((name, fields)) => (name, fields.trim()),
        None => (rest.trim(), ""),
    };
    Some(TraceEvent {
        cpu,
        comm: comm.into(),
        pid: pid.trim().parse().ok()?,
        name: name.into(),
        fields: fields.into(),
    })
}

/// The CPU and the position of its bracket: the first `[digits]` after `-` and a number.
fn cpu(line: &str) -> Option<(usize, u32)> {
    line.match_indices(" [").find_map(|(at, _)| {
        let digits = line[at + 2..].split_once(']')?.0;
        let number = digits.parse().ok()?;
        let (_, pid) = line[..at].trim_end().rsplit_once('-')?;
        let is_pid = !pid.is_empty() && pid.bytes().all(|byte| byte.is_ascii_digit());
        is_pid.then_some((at, number))
    })
}

/// How many events a CPU's buffer has lost, from its `stats` file (`tracing_stats_read`);
/// `None` if the text has another format.
pub fn lost(stats: &str) -> Option<u64> {
    let mut found = false;
    let mut lost = 0_u64;
    for line in stats.lines() {
        let Some((name, value)) = line.split_once(':') else {
            continue;
        };
        if matches!(name.trim(), "overrun" | "commit overrun" | "dropped events") {
            found = true;
            lost = lost.checked_add(value.trim().parse().ok()?)?;
        }
    }
    found.then_some(lost)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str, cpu: u32, comm: &str, pid: u32, name: &str, fields: &str) {
        let expected = TraceEvent {
            cpu,
            comm: comm.into(),
            pid,
            name: name.into(),
            fields: fields.into(),
        };
        assert_eq!(event(line), Some(expected), "{line}");
    }

    #[test]
    fn a_line_is_read_with_and_without_flags() {
        let fields = "numa_scan_offset=0 vm_start=400000 vm_end=401000 reason=unsuitable";
        check(
            &format!("          worker-97      [001] ..... 17: sched_skip_vma_numa: {fields}"),
            1,
            "worker",
            97,
            "sched_skip_vma_numa",
            fields,
        );
        check(
            &format!("          worker-97      [001]     17.000002: sched_skip_vma_numa: {fields}"),
            1,
            "worker",
            97,
            "sched_skip_vma_numa",
            fields,
        );
    }

    #[test]
    fn a_name_may_be_anything() {
        check(
            "  a [0] b-c: d-12    [000]  5: tracing_mark_write: begin one",
            0,
            "a [0] b-c: d",
            12,
            MARK,
            "begin one",
        );
    }

    #[test]
    fn other_lines_are_not_events() {
        for line in [
            "",
            "# tracer: nop",
            "CPU:1 [LOST 12 EVENTS]",
            "a [000] 1: x: y",
            "x-1 [0",
        ] {
            assert_eq!(event(line), None, "{line}");
        }
    }

    #[test]
    fn all_kinds_of_lost_events_are_counted() {
        let stats = "entries: 3\noverrun: 2\ncommit overrun: 1\nbytes: 100\n\
                     oldest event ts:     0.1\ndropped events: 4\nread events: 0\n";
        assert_eq!(lost(stats), Some(7));
        assert_eq!(lost("entries: 3\n"), None);
        assert_eq!(lost("overrun: x\n"), None);
    }
}
