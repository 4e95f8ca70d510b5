//! The conclusions of a check, in sentences.

use super::report::{CheckReport, StepState};
use crate::report::{Compared, RunReport};
use crate::verdict::compare::Change;

pub(super) fn of(report: &CheckReport) -> Vec<String> {
    let mut all = Vec::new();
    match &report.whole.overall {
        Some(overall) if overall.word == Change::ChangesNothing => {
            all.push("this configuration builds nothing that it changes".to_owned());
        }
        Some(_) => all.push("it does not build".to_owned()),
        None => all.extend(of_scenarios(report)),
    }
    if report.new_warnings.iter().flatten().next().is_some() {
        all.push("its build prints new compiler warnings".to_owned());
    }
    for step in &report.each {
        let number = step.patch.number;
        let without = match &step.without[..] {
            [] => String::new(),
            left_out => format!(" (without {})", numbers(left_out)),
        };
        match &step.state {
            StepState::NotBuilt(_) => all.push(format!("patch {number}{without} does not build")),
            StepState::NotApplied(_) => {
                all.push(format!(
                    "patch {number} cannot be checked: it does not apply{without}"
                ));
            }
            StepState::Built(_) if does_not_boot(&step.scenarios) => {
                all.push(format!("patch {number}{without} does not boot"));
            }
            StepState::Built(_) => {
                for (word, verb) in [
                    (Change::Broken, "breaks"),
                    (Change::Unclear, "has an unclear effect on"),
                    (Change::Fixed, "fixes"),
                ] {
                    let named = named(&step.scenarios, word);
                    if !named.is_empty() {
                        all.push(format!("patch {number}{without} {verb} {named}"));
                    }
                }
            }
        }
    }
    if let Some(debug) = &report.debug {
        let of = |word: Change| {
            let alike = debug.scenarios.iter().filter(|one| one.word == word);
            let names: Vec<&str> = alike.map(|one| one.scenario.as_str()).collect();
            names.join(", ")
        };
        if debug.not_built.is_some() {
            all.push("it does not build with the debug options".to_owned());
        }
        for (word, words) in [
            (
                Change::Broken,
                "only the patched debug kernel prints a fault in",
            ),
            (Change::Unclear, "the debug kernels' results are unclear in"),
        ] {
            let named = of(word);
            if !named.is_empty() {
                all.push(format!("{words} {named}"));
            }
        }
        if debug.not_built.is_none() && debug.scenarios.iter().all(|one| one.word >= Change::Holds)
        {
            all.push("the patched debug kernel prints no fault that the base does not".to_owned());
        }
    }
    all
}

fn of_scenarios(report: &CheckReport) -> Vec<String> {
    let scenarios = &report.whole.scenarios;
    let mut all = Vec::new();
    if does_not_boot(scenarios) {
        all.push("it does not boot".to_owned());
    }
    if scenarios.iter().any(|compared| compared.faults.has_new()) {
        all.push("only the patched kernel prints a fault or is tainted".to_owned());
    }
    for (word, verb) in [
        (Change::Broken, "it breaks"),
        (Change::Unclear, "its effect is unclear on"),
        (Change::Fixed, "it fixes"),
        (Change::Holds, "these scenarios pass on both kernels:"),
        (Change::NotExercised, "no changed line runs in"),
        (
            Change::StillFailing,
            "these scenarios fail on both kernels:",
        ),
        (Change::DoesNotApply, "not applicable to these kernels:"),
    ] {
        let named = named(scenarios, word);
        if !named.is_empty() {
            all.push(format!("{verb} {named}"));
        }
    }
    all
}

/// Whether guests of the base reached the agent, and none of the patched kernel did.
fn does_not_boot(scenarios: &[Compared]) -> bool {
    let mut patched = scenarios.iter().flat_map(|compared| &compared.patched);
    let mut base = scenarios.iter().flat_map(|compared| &compared.base);
    let booted = |run: &RunReport| run.boot_end_us.is_some();
    scenarios
        .iter()
        .any(|compared| compared.word == Change::Broken)
        && base.any(booted)
        && !patched.any(booted)
}

fn named(scenarios: &[Compared], word: Change) -> String {
    let alike = scenarios.iter().filter(|compared| compared.word == word);
    let names: Vec<&str> = alike.map(|compared| compared.scenario.as_str()).collect();
    names.join(", ")
}

pub(super) fn numbers(numbers: &[usize]) -> String {
    let numbers: Vec<String> = numbers.iter().map(ToString::to_string).collect();
    match &numbers[..] {
        [one] => format!("patch {one}"),
        several => format!("patches {}", several.join(", ")),
    }
}
