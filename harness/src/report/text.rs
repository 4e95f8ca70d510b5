//! Reports as text, for a terminal and for `report.txt`.

use std::fmt::Write as _;

use comfy_table::{CellAlignment, Table, presets};

use super::{
    CachedResult, Compared, ComparisonReport, DeterminismCheck, LeftOut, RunReport, quote,
};
use crate::guest::escape::escape;
use crate::kernel_id::short;
use crate::scenario::DoesNotApply;
use crate::verdict::compare::{Change, Kernel};
use crate::verdict::{AssertionResult, Verdict};

/// Said wherever results of exact mode are shown.
const LIMITS: &str = "Exact mode runs one interleaving for each seed: it shows what the code decides, \
not races, cache effects, latency or throughput.";

fn table(header: [&str; 4]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(header);
    for index in 1..3 {
        if let Some(column) = table.column_mut(index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

fn lines(table: &Table) -> String {
    let mut text = String::new();
    for line in table.lines() {
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

fn platform(mode: &str, accelerator: &str, qemu: &str, image: &str) -> String {
    format!(
        "{mode} mode, {accelerator}, QEMU {qemu}, guest image {}",
        short(image)
    )
}

/// Runs of one or more scenarios on one kernel.
pub fn runs(reports: &[RunReport]) -> String {
    let mut text = String::new();
    let Some(first) = reports.first() else {
        return text;
    };
    let inputs = &first.inputs;
    let _ = writeln!(
        text,
        "{}: {}",
        inputs.kernel.shown(),
        platform(
            &inputs.mode,
            &inputs.accelerator,
            &inputs.qemu,
            &inputs.image
        )
    );
    text.push('\n');
    let mut table = table(["", "seed", "seen", "wanted"]);
    for report in reports {
        let seed = report.inputs.seed.to_string();
        let mut verdict = report.judgement.verdict.to_string();
        if report.cached.is_some() {
            verdict.push_str(", cached");
        }
        table.add_row([report.inputs.scenario.as_str(), &seed, &verdict, ""]);
        for assertion in &report.judgement.expectations {
            let wanted = assertion.assertion.bound.to_string();
            table.add_row([
                &format!("  {}", assertion.assertion.observable),
                "",
                &value(assertion),
                &wanted,
            ]);
        }
    }
    text.push_str(&lines(&table));
    for report in reports
        .iter()
        .filter(|report| report.judgement.verdict != Verdict::Pass)
    {
        text.push('\n');
        text.push_str(&details(report));
    }
    let cached = cached(reports);
    if !cached.is_empty() {
        let _ = write!(text, "\n{cached}");
    }
    if inputs.mode == "exact" {
        let _ = writeln!(text, "\n{LIMITS}");
    }
    text
}

/// A time without its fractions of a second, which nobody needs to read.
pub(crate) fn moment(time: &str) -> String {
    match time.split_once('.') {
        Some((whole, _)) => format!("{whole}Z"),
        None => time.to_owned(),
    }
}

/// The scenarios that do not apply to the kernel, a line each; empty if there are none.
pub fn does_not_apply(excluded: &[DoesNotApply]) -> String {
    excluded.iter().map(|one| format!("{one}\n")).collect()
}

/// The scenarios that a budget left out, a line each; empty if there are none.
pub fn left_out(left_out: &[LeftOut]) -> String {
    let lines = left_out.iter();
    lines
        .map(|left| format!("left out by the budget, and not judged: {left}\n"))
        .collect()
}

/// How many results are cached, and how repeated runs compare with cached results; empty if
/// there is nothing to report.
pub fn cached<'a>(reports: impl IntoIterator<Item = &'a RunReport> + Clone) -> String {
    let mut text = String::new();
    let all = reports.clone().into_iter().count();
    let known = reports.clone().into_iter();
    let cached: Vec<&str> = known
        .filter_map(|report| Some(report.cached.as_ref()?.at.as_str()))
        .collect();
    if let Some(first) = cached.iter().min() {
        let _ = writeln!(
            text,
            "cached: {} of {all} results, from runs of the same inputs since {}; --fresh runs them again",
            cached.len(),
            moment(first)
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

/// Why a run did not pass, where its evidence is, and how to repeat it.
pub fn details(report: &RunReport) -> String {
    let mut text = String::new();
    let judgement = &report.judgement;
    let inputs = &report.inputs;
    let _ = writeln!(
        text,
        "{} on {}, seed {}: {}",
        inputs.scenario, inputs.kernel.name, inputs.seed, judgement.verdict
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
        let _ = writeln!(text, "  cached: {}, from the run in {folder}", moment(at));
    }
    let _ = writeln!(text, "  everything: {}", report.folder);
    let _ = writeln!(text, "  repeat: {}", report.repeat());
    text
}

fn value(assertion: &AssertionResult) -> String {
    match &assertion.value {
        Ok(value) => value.to_string(),
        Err(_) => "?".into(),
    }
}

/// A comparison.
pub fn comparison(report: &ComparisonReport) -> String {
    let blank = if report.overall.is_some() { "\n" } else { "" };
    let (body, summary) = (comparison_body(report), summary(report));
    let notes = comparison_notes(report);
    format!("{body}{blank}{summary}{notes}repeat: {}\n", report.repeat)
}

/// What a comparison measured.
pub(crate) fn comparison_body(report: &ComparisonReport) -> String {
    let mut text = String::new();
    let patched = match &report.patched {
        Some(kernel) => kernel.shown(),
        None => report.patched_name.clone(),
    };
    let _ = writeln!(text, "{} -> {patched}", report.base.shown());
    let kernels = [Some(&report.base), report.patched.as_ref()];
    for moved in kernels.into_iter().flatten().flat_map(|id| &id.moved) {
        let _ = writeln!(text, "{}", escape(moved.as_bytes()));
    }
    if let Some(overall) = &report.overall {
        let _ = writeln!(
            text,
            "\n{}: {}",
            overall.word,
            escape(overall.because.as_bytes())
        );
        return text;
    }
    let seeds: Vec<String> = report.seeds.iter().map(ToString::to_string).collect();
    let platform = platform(
        &report.mode,
        &report.accelerator,
        &report.qemu,
        &report.image,
    );
    let _ = writeln!(text, "{platform}, seeds {}\n", seeds.join(" "));
    let mut table = table(["", &report.base.name, &report.patched_name, ""]);
    for compared in &report.scenarios {
        let [base, patched] = [
            (&compared.base, Kernel::Base),
            (&compared.patched, Kernel::Patched),
        ]
        .map(|(runs, kernel)| {
            let compared = |run: &RunReport| run.seen().verdict(kernel, &compared.faults);
            verdicts(runs.iter().map(compared))
        });
        table.add_row([
            &compared.scenario,
            &base,
            &patched,
            &compared.word.to_string(),
        ]);
        for (subject, base, patched, wanted) in deciding(compared) {
            table.add_row([&format!("  {subject}"), &base, &patched, &wanted]);
        }
    }
    text.push_str(&lines(&table));
    let faults = quote::differences(
        report
            .scenarios
            .iter()
            .map(|compared| (compared.scenario.as_str(), &compared.faults)),
    );
    if !faults.is_empty() {
        let _ = write!(text, "\n{faults}");
    }
    let unclear = |word| matches!(word, Change::Broken | Change::Unclear);
    for compared in report
        .scenarios
        .iter()
        .filter(|compared| unclear(compared.word))
    {
        let base = compared.base.iter().map(|run| (run, Kernel::Base));
        let patched = compared.patched.iter().map(|run| (run, Kernel::Patched));
        let compared = |run: &RunReport, kernel| run.seen().verdict(kernel, &compared.faults);
        for (run, kernel) in base.chain(patched) {
            if compared(run, kernel) != Verdict::Pass {
                text.push('\n');
                text.push_str(&details(run));
            }
        }
    }
    text.push('\n');
    text
}

/// What else there is to know of a comparison that ran scenarios.
pub(crate) fn comparison_notes(report: &ComparisonReport) -> String {
    let mut text = String::new();
    if report.overall.is_some() {
        return text;
    }
    for because in report
        .scenarios
        .iter()
        .filter_map(|one| one.because.as_ref())
    {
        let _ = writeln!(text, "{because}");
    }
    let runs = report.scenarios.iter();
    let runs = runs.flat_map(|compared| compared.base.iter().chain(&compared.patched));
    text.push_str(&cached(runs));
    text.push_str(&left_out(&report.left_out));
    if report.mode == "exact" {
        let _ = writeln!(text, "{LIMITS}");
    }
    text
}

/// One line that names what each word says of which scenarios.
fn summary(report: &ComparisonReport) -> String {
    let mut text = String::new();
    let words = [
        (Change::Broken, "broken"),
        (Change::Unclear, "unclear"),
        (Change::Fixed, "fixed"),
        (
            Change::StillFailing,
            "still failing on both, which is not this patch's fault",
        ),
        (Change::Holds, "holds"),
        (Change::NotExercised, "not exercised, which proves nothing"),
    ];
    for (word, words) in words {
        let named: Vec<&str> = report
            .scenarios
            .iter()
            .filter(|compared| compared.word == word)
            .map(|compared| compared.scenario.as_str())
            .collect();
        if !named.is_empty() {
            let _ = writeln!(text, "{words}: {}", named.join(", "));
        }
    }
    text
}

// `pass`, or each verdict with its count if they differ.
fn verdicts(runs: impl Iterator<Item = Verdict>) -> String {
    let runs: Vec<Verdict> = runs.collect();
    let all = [Verdict::Pass, Verdict::Fail, Verdict::Inconclusive].map(|verdict| {
        let alike = runs.iter().filter(|run| **run == verdict);
        (verdict, alike.count())
    });
    match all
        .iter()
        .filter(|(_, count)| *count > 0)
        .collect::<Vec<_>>()[..]
    {
        [] => "not run".into(),
        [(verdict, _)] => verdict.to_string(),
        ref several => {
            let words = several
                .iter()
                .map(|(verdict, count)| format!("{count} {verdict}"));
            words.collect::<Vec<_>>().join(", ")
        }
    }
}

// The expectations' values on both sides: only these decide, so only these are shown.
pub(crate) fn deciding(compared: &Compared) -> Vec<(String, String, String, String)> {
    let Some(first) = compared.base.first().or(compared.patched.first()) else {
        return Vec::new();
    };
    let rows = first
        .judgement
        .expectations
        .iter()
        .enumerate()
        .map(|(index, assertion)| {
            let [base, patched] =
                [&compared.base, &compared.patched].map(|runs| values(runs, index));
            (
                assertion.assertion.observable.to_string(),
                base,
                patched,
                assertion.assertion.bound.to_string(),
            )
        });
    rows.collect()
}

// One value, or the least and the greatest over the seeds.
fn values(runs: &[RunReport], index: usize) -> String {
    let values: Option<Vec<i64>> = runs
        .iter()
        .map(|run| {
            run.judgement
                .expectations
                .get(index)?
                .value
                .as_ref()
                .ok()
                .copied()
        })
        .collect();
    match values.as_deref() {
        None | Some([]) => "?".into(),
        Some(values) => match (values.iter().min(), values.iter().max()) {
            (Some(low), Some(high)) if low == high => low.to_string(),
            (Some(low), Some(high)) => format!("{low} to {high}"),
            _ => "?".into(),
        },
    }
}
