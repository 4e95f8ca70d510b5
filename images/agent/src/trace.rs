//! Trace events: the kernel records them during measurements, and the agent sends them after
//! the last step. Nothing is sent while tasks run.

use std::path::Path;

use numalab_protocol::Record;
use numalab_protocol::record::TraceEvent;
use numalab_protocol::tracefs::{self, BEGIN, END};

use crate::file::{self, FileError};
use crate::records::Records;
use crate::stop::{Stage, Stop};

const ROOT: &str = "/sys/kernel/tracing";

/// KiB of each CPU's buffer: about twenty thousand events.
const BUFFER_KIB: &str = "2048";

/// The most events that are sent.
const MAX_EVENTS: usize = 40_000;

/// Events of one record.
const PER_RECORD: usize = 64;

/// The plan's trace events.
#[derive(Debug, Default)]
pub(crate) struct Trace {
    recorded: Vec<String>,
    missing: Vec<String>,
}

impl Trace {
    /// Enables the events that the kernel has; recording is still off.
    pub(crate) fn set_up(events: &[String]) -> Result<Trace, FileError> {
        let mut trace = Trace::default();
        for event in events {
            if Path::new(&enable_file(event)).exists() {
                trace.recorded.push(event.clone());
            } else {
                trace.missing.push(event.clone());
            }
        }
        if trace.recorded.is_empty() {
            return Ok(trace);
        }
        write("tracing_on", "0")?;
        // A counter, because events of two CPUs may have the same guest time.
        write("trace_clock", "counter")?;
        // Keep the first events, and count those that do not fit.
        write("options/overwrite", "0")?;
        write("buffer_size_kb", BUFFER_KIB)?;
        for event in &trace.recorded {
            file::write(&enable_file(event), "1")?;
        }
        Ok(trace)
    }

    /// Starts recording.
    pub(crate) fn begin(&self, measure: &str) -> Result<(), FileError> {
        if self.recorded.is_empty() {
            return Ok(());
        }
        write("tracing_on", "1")?;
        write("trace_marker", &format!("{BEGIN}{measure}"))
    }

    /// Stops recording.
    pub(crate) fn end(&self, measure: &str) -> Result<(), FileError> {
        if self.recorded.is_empty() {
            return Ok(());
        }
        write("trace_marker", &format!("{END}{measure}"))?;
        write("tracing_on", "0")
    }

    /// Sends what was recorded.
    pub(crate) fn send(self, records: &mut Records) -> Result<(), Stop> {
        if self.recorded.is_empty() && self.missing.is_empty() {
            return Ok(());
        }
        let (mut events, mut lost) = if self.recorded.is_empty() {
            (Vec::new(), 0)
        } else {
            (read().stage("trace")?, lost().stage("trace")?)
        };
        lost += events.len().saturating_sub(MAX_EVENTS) as u64;
        events.truncate(MAX_EVENTS);
        records.send(Record::Trace {
            recorded: self.recorded,
            missing: self.missing,
            lost,
        })?;
        for events in events.chunks(PER_RECORD) {
            records.send(Record::TraceEvents {
                events: events.to_vec(),
            })?;
        }
        Ok(records.drain()?)
    }
}

/// The file that enables an event, `system:name`.
fn enable_file(event: &str) -> String {
    format!("{ROOT}/events/{}/enable", event.replacen(':', "/", 1))
}

fn write(name: &str, value: &str) -> Result<(), FileError> {
    file::write(&format!("{ROOT}/{name}"), value)
}

fn read() -> Result<Vec<TraceEvent>, FileError> {
    let path = format!("{ROOT}/trace");
    let text = file::read(&path)?;
    text.lines()
        .filter(|line| !line.starts_with('#') && !line.is_empty())
        .map(|line| {
            tracefs::event(line).ok_or_else(|| FileError::form(&path, line, "a trace event"))
        })
        .collect()
}

/// How many events did not fit into the buffers of all CPUs.
fn lost() -> Result<u64, FileError> {
    let mut all = 0;
    for cpu in 0.. {
        let path = format!("{ROOT}/per_cpu/cpu{cpu}/stats");
        let Some(text) = file::read_optional(&path)? else {
            break;
        };
        all += tracefs::lost(&text)
            .ok_or_else(|| FileError::form(&path, &text, "a buffer's statistics"))?;
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_has_its_own_enable_file() {
        assert_eq!(
            enable_file("sched:sched_move_numa"),
            "/sys/kernel/tracing/events/sched/sched_move_numa/enable"
        );
    }

    #[test]
    fn a_missing_event_is_not_an_error() {
        let trace = Trace::set_up(&["numalab:no_such_event".into()]).unwrap();
        assert_eq!(trace.missing, ["numalab:no_such_event"]);
        trace.begin("m").unwrap();
        trace.end("m").unwrap();
    }
}
