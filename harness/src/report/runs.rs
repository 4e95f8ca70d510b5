//! Runs as text: what was seen of each, and the evidence.

use std::fmt::Write as _;

use jiff::Timestamp;

use super::layout::{LIMITS, lines, platform, table};
use super::{CachedResult, DeterminismCheck, LeftOut, RunReport};
use crate::guest::escape::escape;
use crate::scenario::DoesNotApply;
use crate::verdict::{AssertionResult, Judgement, Verdict};

/// Runs of one or more scenarios on one kernel.
pub fn runs(reports: &[RunReport]) -> String {
    let mut text = String::new();
    let Some(first) = reports.first() else {
        return text;
    };
    let inputs = &first.inputs;
    let platform = platform(
        &inputs.mode,
        &inputs.accelerator,
        &inputs.qemu,
        &inputs.image,
    );
    // Writing to a string cannot fail.
    let _ = writeln!(text, "{}: {platform}\n", inputs.kernel.shown());
    let mut table = table(["", "seed", "seen", "wanted"]);
    for report in reports {
        let seed = report.inputs.seed.to_string();
        let mut verdict = report.judgement.verdict.to_string();
        if report.cached.is_some() {
            verdict.push_str(", cached");
        }
        table.add_row([report.inputs.scenario.as_str(), &seed, &verdict, ""]);
        for AssertionResult { assertion, value } in &report.judgement.expectations {
            let what = format!("  {}", assertion.observable);
            let value = value.as_ref().map_or("?".to_owned(), ToString::to_string);
            table.add_row([&what, "", &value, &assertion.bound.to_string()]);
        }
    }
    text.push_str(&lines(&table));
    let without_answer = |report: &&RunReport| {
        !matches!(report.judgement.verdict, Verdict::Pass | Verdict::Measured)
    };
    text.push_str(&all_details(reports.iter().filter(without_answer)));
    let cached = cached(reports);
    if !cached.is_empty() {
        let _ = write!(text, "\n{cached}");
    }
    if inputs.mode == "exact" {
        let _ = writeln!(text, "\n{LIMITS}");
    }
    text
}

/// Everything that was measured, of the runs whose values are to be shown.
pub fn counters(reports: &[RunReport]) -> String {
    let mut text = String::new();
    for report in reports.iter().filter(|report| !report.values.is_empty()) {
        let inputs = &report.inputs;
        let _ = writeln!(
            text,
            "\n{}, seed {}, measured:",
            inputs.scenario, inputs.seed
        );
        let mut table = comfy_table::Table::new();
        table.load_style(comfy_table::presets::NOTHING);
        for (what, value) in &report.values {
            table.add_row([&format!("  {what}"), &value.to_string()]);
        }
        if let Some(column) = table.column_mut(1) {
            column.set_cell_alignment(comfy_table::CellAlignment::Right);
        }
        text.push_str(&lines(&table));
    }
    text
}

/// The scenarios that do not apply to the kernel, a line each; empty if there are none.
pub fn does_not_apply(excluded: &[DoesNotApply]) -> String {
    excluded.iter().map(|one| format!("{one}\n")).collect()
}

/// The scenarios that a budget left out, a line each; empty if there are none.
pub fn left_out(left_out: &[LeftOut]) -> String {
    let lines = left_out.iter();
    lines
        .map(|left| format!("skipped because of the budget: {left}\n"))
        .collect()
}

/// A time without its fractions of a second.
pub(crate) fn moment(time: Timestamp) -> impl std::fmt::Display {
    time.strftime("%Y-%m-%dT%H:%M:%SZ")
}

/// How many results are cached, and how repeated runs compare with cached results; empty if
/// there is nothing to report.
pub fn cached<'a>(reports: impl IntoIterator<Item = &'a RunReport> + Clone) -> String {
    let mut text = String::new();
    let all = reports.clone().into_iter().count();
    let known = reports.clone().into_iter();
    let cached: Vec<Timestamp> = known
        .filter_map(|report| Some(report.cached.as_ref()?.at))
        .collect();
    if let Some(first) = cached.iter().min() {
        let _ = writeln!(
            text,
            "cached: {} of {all} results, from runs of the same inputs since {}; --fresh runs them again",
            cached.len(),
            moment(*first)
        );
    }
    let checks = reports
        .into_iter()
        .filter_map(|run| run.determinism.as_ref());
    let (identical, different): (Vec<_>, Vec<_>) =
        checks.partition(|check| matches!(check, DeterminismCheck::Identical { .. }));
    if !different.is_empty() {
        let (different, all) = (different.len(), identical.len() + different.len());
        let _ = writeln!(
            text,
            "determinism failure: {different} of {all} repeated results differ from the cached ones"
        );
    } else if !identical.is_empty() && !cached.is_empty() {
        let _ = writeln!(
            text,
            "repeated: {} cached results, with identical records",
            identical.len()
        );
    }
    text
}

/// The details of several runs, one block for those of a scenario and kernel that say the
/// same.
pub(crate) fn all_details<'a>(reports: impl IntoIterator<Item = &'a RunReport>) -> String {
    let mut groups: Vec<Vec<&RunReport>> = Vec::new();
    for report in reports {
        let alike =
            |group: &&mut Vec<&RunReport>| group.iter().all(|known| says_same(known, report));
        match groups.iter_mut().find(alike) {
            Some(group) => group.push(report),
            None => groups.push(vec![report]),
        }
    }
    groups
        .iter()
        .map(|group| format!("\n{}", block(group)))
        .collect()
}

fn says_same(one: &RunReport, other: &RunReport) -> bool {
    let said = |report: &RunReport| {
        let Judgement {
            verdict, reasons, ..
        } = &report.judgement;
        let inputs = &report.inputs;
        let ending = (*verdict == Verdict::Inconclusive).then(|| report.ending.clone());
        (
            (inputs.scenario.clone(), inputs.kernel.digest.clone()),
            (*verdict, reasons.clone(), ending),
            report.console_tail.is_empty(),
        )
    };
    said(one) == said(other)
}

/// Why a run did not pass, where its evidence is, and how to repeat it.
pub fn details(report: &RunReport) -> String {
    block(&[report])
}

/// The details of runs that say the same; the evidence is that of the first.
fn block(reports: &[&RunReport]) -> String {
    let mut text = String::new();
    let Some(report) = reports.first() else {
        return text;
    };
    let judgement = &report.judgement;
    let inputs = &report.inputs;
    let seeds: Vec<String> = reports
        .iter()
        .map(|report| report.inputs.seed.to_string())
        .collect();
    let _ = writeln!(
        text,
        "{} on {}, {} {}: {}",
        inputs.scenario,
        inputs.kernel.name,
        if seeds.len() == 1 { "seed" } else { "seeds" },
        seeds.join(" "),
        judgement.verdict
    );
    for reason in &judgement.reasons {
        let _ = writeln!(text, "  {}", escape(reason.as_bytes()));
    }
    if judgement.verdict == Verdict::Inconclusive {
        let _ = writeln!(text, "  the guest: {}", escape(report.ending.as_bytes()));
    }
    if !report.console_tail.is_empty() {
        text.push_str("  last lines of the console:\n");
        for line in &report.console_tail {
            let _ = writeln!(text, "    | {}", escape(line.as_bytes()));
        }
    }
    if let Some(CachedResult { at, folder, .. }) = &report.cached {
        let _ = writeln!(text, "  cached: {}, from the run in {folder}", moment(*at));
    }
    for report in reports {
        let _ = writeln!(text, "  everything: {}", report.folder);
    }
    let _ = writeln!(text, "  repeat: {}", report.repeat());
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(seed: u64, reason: &str) -> RunReport {
        let digest = "0".repeat(64);
        let report = serde_json::json!({
            "schema": 3,
            "inputs": {
                "scenario": "own/mine", "scenario_file": "own/mine.yaml",
                "kernel": {
                    "name": "k", "word": "k", "release": "6.12", "digest": digest,
                    "path": "k", "stored": "2026-01-01T00:00:00Z"
                },
                "image": digest, "qemu": "9", "firmware": digest, "mode": "exact",
                "accelerator": "tcg", "seed": seed, "append": [], "numalab": "0", "contract": 1
            },
            "started_from": "cold",
            "judgement": {
                "verdict": "fail", "reasons": [reason], "guards": [], "expectations": []
            },
            "faults": [], "ending": "powered off", "measurements": {}, "facts": {},
            "values": { "m: numa_pte_updates": 7 },
            "console_tail": [],
            "times": { "wall_ms": 1, "qemu_cpu_ms": 1, "guest_steps_ms": 1 },
            "folder": format!("runs/{seed}")
        });
        serde_json::from_value(report).unwrap()
    }

    #[test]
    fn seeds_that_fail_alike_have_one_block() {
        let reports = [
            report(1, "it is 0"),
            report(2, "it is 0"),
            report(3, "it is 9"),
        ];
        let text = all_details(&reports);
        assert_eq!(text.matches("it is 0").count(), 1, "{text}");
        assert!(text.contains("own/mine on k, seeds 1 2: fail"), "{text}");
        assert!(text.contains("own/mine on k, seed 3: fail"), "{text}");
        for seed in 1..=3 {
            assert!(
                text.contains(&format!("everything: runs/{seed}\n")),
                "{text}"
            );
        }
    }

    #[test]
    fn what_was_measured_is_a_table() {
        let shown = report(1, "x");
        let mut hidden = report(2, "x");
        hidden.values.clear();
        assert_eq!(
            counters(&[shown, hidden]),
            "\nown/mine, seed 1, measured:\n   m: numa_pte_updates  7\n"
        );
    }
}
