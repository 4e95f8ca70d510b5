//! Trace events in a form that two kernels can be compared by: without process ids and
//! addresses, which say nothing of what the kernel decided.

use std::collections::BTreeMap;

use numalab_protocol::Record;
use numalab_protocol::record::TraceEvent;
use numalab_protocol::tracefs::{BEGIN, END, MARK};

/// An event of a measurement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Line {
    /// Which measurement: how many began before it.
    pub(super) at: usize,
    /// Its name.
    pub(super) measure: String,
    /// The event's name.
    pub(super) name: String,
    /// The whole event.
    pub(super) text: String,
}

/// The events of a run's measurements, in order.
pub(super) fn lines(records: &[Record], events: &[TraceEvent]) -> Vec<Line> {
    let mut names = Names::of(records);
    let mut vmas = Vmas::default();
    let mut measure: Option<String> = None;
    let (mut at, mut lines) = (0_usize, Vec::new());
    for event in events {
        if event.name == MARK {
            if let Some(name) = event.fields.strip_prefix(BEGIN) {
                measure = Some(name.to_owned());
            } else if event.fields.strip_prefix(END).is_some() {
                measure = None;
                at += 1;
            }
            continue;
        }
        let Some(measure) = &measure else {
            // What another CPU did while recording was switched on.
            continue;
        };
        let who = names.name(event.pid, Some(&event.comm));
        let fields = fields(&event.fields, &who, &mut names, &mut vmas);
        lines.push(Line {
            at,
            measure: measure.clone(),
            name: event.name.clone(),
            text: format!("cpu{} {who} {}:{fields}", event.cpu, event.name),
        });
    }
    lines
}

/// The names of tasks by process id.
#[derive(Debug, Default)]
struct Names {
    known: BTreeMap<u32, String>,
    others: usize,
}

impl Names {
    fn of(records: &[Record]) -> Names {
        let mut names = Names::default();
        for record in records {
            if let Record::Started { task, pid } = record {
                names.known.insert(*pid, task.clone());
            }
        }
        names.known.insert(0, "idle".into());
        names
    }

    /// A process that is no task of the scenario's is called by the kernel's name of it, or
    /// by the order in which it was first seen.
    fn name(&mut self, pid: u32, comm: Option<&str>) -> String {
        if let Some(name) = self.known.get(&pid) {
            return name.clone();
        }
        self.others += 1;
        let name = match comm {
            Some(comm) if !comm.starts_with('<') => format!("{comm}~{}", self.others),
            _ => format!("task~{}", self.others),
        };
        self.known.insert(pid, name.clone());
        name
    }
}

/// VMAs by the task that was looked at and their begin.
#[derive(Debug, Default)]
struct Vmas(BTreeMap<(String, u64), usize>);

impl Vmas {
    fn number(&mut self, who: &str, start: u64) -> usize {
        let next = self.0.len() + 1;
        *self.0.entry((who.to_owned(), start)).or_insert(next)
    }
}

fn fields(text: &str, who: &str, names: &mut Names, vmas: &mut Vmas) -> String {
    let words: Vec<&str> = text.split_ascii_whitespace().collect();
    let value = |name: &str| {
        let found = words
            .iter()
            .find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
        found.and_then(|value| u64::from_str_radix(value, 16).ok())
    };
    let vma = value("vm_start").zip(value("vm_end"));
    let mut all = String::new();
    for word in &words {
        let shown = match word.split_once('=') {
            Some(("vm_start", _)) if vma.is_some() => vma.map(|(start, end)| {
                let kib = end.saturating_sub(start) / 1024;
                format!("vma=#{}({kib}KiB)", vmas.number(who, start))
            }),
            Some(("vm_end", _)) if vma.is_some() => None,
            Some(("numa_scan_offset", _)) => value("numa_scan_offset")
                .zip(vma)
                .filter(|(at, (start, end))| start <= at && at < end)
                .map(|(at, (start, _))| format!("numa_scan_offset=+{}KiB", (at - start) / 1024)),
            Some((key, pid)) if ["pid", "tgid", "ngid"].iter().any(|end| is_id(key, end)) => {
                match pid.parse() {
                    // Of a group: there is none.
                    Ok(0) if key.ends_with("ngid") => Some(format!("{key}=none")),
                    Ok(pid) => Some(format!("{key}={}", names.name(pid, None))),
                    Err(_) => Some((*word).to_owned()),
                }
            }
            Some((key, number)) if is_address(number) => Some(format!("{key}=address")),
            _ => Some((*word).to_owned()),
        };
        if let Some(shown) = shown {
            all.push(' ');
            all.push_str(&shown);
        }
    }
    all
}

/// Whether a field is an id such as `pid` or `src_pid`.
fn is_id(key: &str, end: &str) -> bool {
    key.strip_suffix(end)
        .is_some_and(|rest| rest.is_empty() || rest.ends_with('_'))
}

/// Whether a value looks like an address: more than eight hexadecimal digits.
fn is_address(value: &str) -> bool {
    let digits = value.strip_prefix("0x").unwrap_or(value);
    let hexadecimal = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    hexadecimal && digits.len() > 8 && digits.bytes().any(|byte| !byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(pid: u32, name: &str, fields: &str) -> TraceEvent {
        TraceEvent {
            cpu: 1,
            comm: "init".into(),
            pid,
            name: name.into(),
            fields: fields.into(),
        }
    }

    fn stream(pid: u32, base: u64) -> Vec<Line> {
        let started = [Record::Started {
            task: "worker".into(),
            pid,
        }];
        let skip = |start: u64| {
            let fields = format!(
                "numa_scan_offset={:X} vm_start={start:X} vm_end={:X} reason=inaccessible",
                base + 0x2000,
                start + 0x4000
            );
            event(pid, "sched_skip_vma_numa", &fields)
        };
        let moved = format!(
            "pid={0} tgid={0} ngid=0 src_cpu=0 src_nid=0 dst_cpu=1 dst_nid=1",
            pid
        );
        let events = [
            event(1, MARK, "begin one"),
            skip(base),
            skip(base + 0x10000),
            event(pid + 5, "sched_move_numa", &moved),
            event(1, MARK, "end one"),
        ];
        lines(&started, &events)
    }

    #[test]
    fn ids_and_addresses_make_no_difference() {
        let one = stream(97, 0x7f00_1234_5000);
        assert_eq!(one, stream(101, 0x7f00_9999_0000));
        let texts: Vec<&str> = one.iter().map(|line| line.text.as_str()).collect();
        assert_eq!(
            texts,
            [
                "cpu1 worker sched_skip_vma_numa: numa_scan_offset=+8KiB vma=#1(16KiB) \
                 reason=inaccessible",
                "cpu1 worker sched_skip_vma_numa: vma=#2(16KiB) reason=inaccessible",
                "cpu1 init~1 sched_move_numa: pid=worker tgid=worker ngid=none src_cpu=0 \
                 src_nid=0 dst_cpu=1 dst_nid=1",
            ]
        );
    }

    #[test]
    fn an_event_outside_of_measurements_is_no_event_of_ours() {
        assert_eq!(lines(&[], &[event(5, "sched_move_numa", "")]), []);
    }

    #[test]
    fn only_what_looks_like_an_address_is_left_out() {
        assert!(is_address("ffff888012345678") && is_address("0x7f0012345678"));
        assert!(!is_address("1234567890123") && !is_address("deadbeef") && !is_address("x=y"));
    }
}
