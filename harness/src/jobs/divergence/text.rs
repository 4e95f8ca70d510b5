//! Divergences as text.

use std::fmt::Write as _;

use super::{Divergence, DivergencePoint};
use crate::guest::escape::escape;

/// Where two kernels part, scenario by scenario.
pub fn divergences(all: &[Divergence]) -> String {
    let mut text =
        String::from("first trace event that differs (of one more run each; no verdict):\n");
    for divergence in all {
        let name = &divergence.scenario;
        let _ = match &divergence.found {
            DivergencePoint::Same { events } => {
                writeln!(text, "  {name}: none, all {events} are the same")
            }
            DivergencePoint::Unknown { because } => {
                let because = escape(because.as_bytes());
                writeln!(text, "  {name}: not known: {because}")
            }
            DivergencePoint::Differs {
                measure,
                same,
                after,
                base,
                patched,
            } => {
                let shown = |event: &Option<String>| match event {
                    Some(event) => escape(event.as_bytes()),
                    None => "no more events in this measurement".into(),
                };
                let mut lines = format!("  {name}: in {measure}, after {same} events\n");
                if after.is_some() {
                    let _ = writeln!(lines, "    both:    {}", shown(after));
                }
                let _ = writeln!(lines, "    base:    {}", shown(base));
                let _ = writeln!(lines, "    patched: {}", shown(patched));
                text.write_str(&lines)
            }
        };
    }
    let missing: std::collections::BTreeSet<&String> = all
        .iter()
        .flat_map(|divergence| &divergence.missing)
        .collect();
    if !missing.is_empty() {
        let names: Vec<&str> = missing.iter().map(|name| name.as_str()).collect();
        let _ = writeln!(text, "  not in both kernels: {}", names.join(", "));
    }
    text
}
