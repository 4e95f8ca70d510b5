//! Comparisons as text.

use std::fmt::Write as _;

use super::layout::{LIMITS, lines, platform, table};
use super::runs::{all_details, cached, left_out};
use super::{Compared, ComparisonReport, RunReport, quote};
use crate::guest::escape::escape;
use crate::verdict::Verdict;
use crate::verdict::compare::{Change, Kernel};

/// A comparison.
pub fn comparison(report: &ComparisonReport) -> String {
    let blank = if report.overall.is_some() { "\n" } else { "" };
    let (body, summary) = (comparison_body(report), summary(report));
    let notes = comparison_notes(report);
    format!("{body}{blank}{summary}{notes}repeat: {}\n", report.repeat)
}

/// What a comparison measured.
pub(crate) fn comparison_body(report: &ComparisonReport) -> String {
    let mut text = heading(report);
    if let Some(overall) = &report.overall {
        let because = escape(overall.because.as_bytes());
        // Writing to a string cannot fail.
        let _ = writeln!(text, "\n{}: {because}", overall.word);
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
    text.push_str(&verdicts(report));
    let faults = report.scenarios.iter();
    let faults = faults.map(|compared| (compared.scenario.as_str(), &compared.faults));
    let faults = quote::differences(faults);
    if !faults.is_empty() {
        let _ = write!(text, "\n{faults}");
    }
    let undecided =
        |compared: &&Compared| matches!(compared.word, Change::Broken | Change::Unclear);
    for compared in report.scenarios.iter().filter(undecided) {
        let did_not_pass = runs(compared)
            .filter(|(run, kernel)| run.seen().verdict(*kernel, &compared.faults) != Verdict::Pass);
        text.push_str(&all_details(did_not_pass.map(|(run, _)| run)));
    }
    text.push('\n');
    text
}

/// What else there is to know about a comparison that ran scenarios.
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
    let scenarios = report.scenarios.iter();
    let all = scenarios.flat_map(|compared| compared.base.iter().chain(&compared.patched));
    text.push_str(&cached(all));
    text.push_str(&left_out(&report.left_out));
    if report.mode == "exact" {
        let _ = writeln!(text, "{LIMITS}");
    }
    text
}

/// The kernels, and where hunks of their patches were applied at another place.
fn heading(report: &ComparisonReport) -> String {
    let patched = match &report.patched {
        Some(kernel) => kernel.shown(),
        None => report.patched_name.clone(),
    };
    let mut text = format!("{} -> {patched}\n", report.base.shown());
    let kernels = [Some(&report.base), report.patched.as_ref()];
    for moved in kernels.into_iter().flatten().flat_map(|id| &id.moved) {
        let _ = writeln!(text, "{}", escape(moved.as_bytes()));
    }
    text
}

/// The runs of both kernels.
fn runs(compared: &Compared) -> impl Iterator<Item = (&RunReport, Kernel)> {
    let base = compared.base.iter().map(|run| (run, Kernel::Base));
    base.chain(compared.patched.iter().map(|run| (run, Kernel::Patched)))
}

/// The table of scenarios, with the verdicts and values of both kernels.
fn verdicts(report: &ComparisonReport) -> String {
    let mut table = table(["", &report.base.name, &report.patched_name, ""]);
    for compared in &report.scenarios {
        let [base, patched] = [Kernel::Base, Kernel::Patched].map(|kernel| {
            let own = runs(compared).filter(|(_, of)| *of == kernel);
            count(own.map(|(run, _)| run.seen().verdict(kernel, &compared.faults)))
        });
        table.add_row([
            &compared.scenario,
            &base,
            &patched,
            &compared.word.to_string(),
        ]);
        for (observable, base, patched, wanted) in deciding(compared) {
            table.add_row([&format!("  {observable}"), &base, &patched, &wanted]);
        }
    }
    lines(&table)
}

/// A line for each kind of change, with its scenarios.
fn summary(report: &ComparisonReport) -> String {
    let mut text = String::new();
    let changes = [
        (Change::Broken, "broken"),
        (Change::Unclear, "unclear"),
        (Change::Fixed, "fixed"),
        (
            Change::StillFailing,
            "still failing on both kernels, so not because of this patch",
        ),
        (Change::Holds, "holds"),
        (Change::NotExercised, "not exercised, which proves nothing"),
    ];
    for (change, words) in changes {
        let alike = report.scenarios.iter().filter(|one| one.word == change);
        let names: Vec<&str> = alike.map(|compared| compared.scenario.as_str()).collect();
        if !names.is_empty() {
            let _ = writeln!(text, "{words}: {}", names.join(", "));
        }
    }
    text
}

/// `pass`, or each verdict with its count if they differ.
fn count(runs: impl Iterator<Item = Verdict>) -> String {
    let runs: Vec<Verdict> = runs.collect();
    let verdicts = [
        Verdict::Pass,
        Verdict::Measured,
        Verdict::Fail,
        Verdict::Inconclusive,
    ];
    let counts =
        verdicts.map(|verdict| (verdict, runs.iter().filter(|run| **run == verdict).count()));
    let counts: Vec<_> = counts.into_iter().filter(|(_, count)| *count > 0).collect();
    match &counts[..] {
        [] => "not run".into(),
        [(verdict, _)] => verdict.to_string(),
        several => {
            let words = several
                .iter()
                .map(|(verdict, count)| format!("{count} {verdict}"));
            words.collect::<Vec<_>>().join(", ")
        }
    }
}

/// What each expectation is about, its values on both kernels, and its bound: only these
/// decide, so only these are shown.
pub(crate) fn deciding(compared: &Compared) -> Vec<(String, String, String, String)> {
    let Some((first, _)) = runs(compared).next() else {
        return Vec::new();
    };
    let expectations = first.judgement.expectations.iter().enumerate();
    let rows = expectations.map(|(index, expectation)| {
        let assertion = &expectation.assertion;
        let [base, patched] = [&compared.base, &compared.patched].map(|runs| values(runs, index));
        (
            assertion.observable.to_string(),
            base,
            patched,
            assertion.bound.to_string(),
        )
    });
    rows.collect()
}

/// One value, or the least and the greatest over the seeds.
fn values(runs: &[RunReport], index: usize) -> String {
    let value = |run: &RunReport| {
        let expectation = run.judgement.expectations.get(index)?;
        expectation.value.as_ref().ok().copied()
    };
    let values: Option<Vec<i64>> = runs.iter().map(value).collect();
    let values = values.unwrap_or_default();
    match (values.iter().min(), values.iter().max()) {
        (Some(low), Some(high)) if low == high => low.to_string(),
        (Some(low), Some(high)) => format!("{low} to {high}"),
        _ => "?".into(),
    }
}
