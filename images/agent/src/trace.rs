//! Trace events, recorded by the kernel while measurements run and sent when all is over.
//!
//! Nothing is recorded outside of measurements, and nothing sent while tasks run.

use std::path::Path;

use numalab_protocol::Record;
use numalab_protocol::record::TraceEvent;
use numalab_protocol::tracefs::{self, BEGIN, END};

use crate::file::{self, FileError};
use crate::records::Records;
use crate::stop::{Stage, Stop};

const ROOT: &str = "/sys/kernel/tracing";

/// KiB of each CPU's buffer: some twenty thousand events.
const BUFFER_KIB: &str = "2048";

/// The most events that are sent.
const MOST: usize = 40_000;

/// Events of one record.
const AT_ONCE: usize = 64;

/// Events that are recorded.
#[derive(Debug, Default)]
pub(crate) struct Trace {
    recorded: Vec<String>,
    missing: Vec<String>,
}

impl Trace {
    /// Prepares what is asked for; nothing is recorded yet.
    pub(crate) fn set_up(events: &[String]) -> Result<Trace, FileError> {
        let mut trace = Trace::default();
        for event in events {
            if Path::new(&switch(event)).exists() {
                trace.recorded.push(event.clone());
            } else {
                trace.missing.push(event.clone());
            }
        }
        if trace.recorded.is_empty() {
            return Ok(trace);
        }
        write("tracing_on", "0")?;
        // A counter, because two CPUs may do something at one moment of the guest's time.
        write("trace_clock", "counter")?;
        // What is recorded first is kept, and what does not fit is counted.
        write("options/overwrite", "0")?;
        write("buffer_size_kb", BUFFER_KIB)?;
        for event in &trace.recorded {
            file::write(&switch(event), "1")?;
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
        let asked = !self.recorded.is_empty() || !self.missing.is_empty();
        if !asked {
            return Ok(());
        }
        let (mut events, mut lost) = if self.recorded.is_empty() {
            (Vec::new(), 0)
        } else {
            (read().stage("trace")?, lost().stage("trace")?)
        };
        lost += events.len().saturating_sub(MOST) as u64;
        events.truncate(MOST);
        records.send(Record::Trace {
            recorded: self.recorded,
            missing: self.missing,
            lost,
        })?;
        for events in events.chunks(AT_ONCE) {
            records.send(Record::TraceEvents {
                events: events.to_vec(),
            })?;
        }
        Ok(records.drain()?)
    }
}

/// The file that switches an event, `system:name`, on.
fn switch(event: &str) -> String {
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
    fn an_event_is_switched_by_its_own_file() {
        assert_eq!(
            switch("sched:sched_move_numa"),
            "/sys/kernel/tracing/events/sched/sched_move_numa/enable"
        );
    }

    #[test]
    fn a_kernel_without_an_event_is_no_error() {
        let trace = Trace::set_up(&["numalab:no_such_event".into()]).unwrap();
        assert_eq!(trace.missing, ["numalab:no_such_event"]);
        trace.begin("m").unwrap();
        trace.end("m").unwrap();
    }
}
