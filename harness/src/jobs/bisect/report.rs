//! The report of a bisection, as `report.json` and as text.

use comfy_table::{CellAlignment, Table, presets};
use numalab_kernels::source::repository::abbreviated;
use serde::{Deserialize, Serialize};

use super::confidence::RepetitionPlan;
use super::step::{BisectStep, CommitRole, Mark};
use crate::guest::escape::escape;
use crate::kernel_id::short;

/// The report of a bisection.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Report {
    /// The version of `report.json`.
    pub schema: u32,
    /// `suite/scenario`.
    pub scenario: String,
    /// The repository.
    pub repository: std::path::PathBuf,
    /// The good end's commit id.
    pub good: String,
    /// The bad end's.
    pub bad: String,
    /// All judged commits, in the order of judging.
    pub steps: Vec<BisectStep>,
    /// How many of them an earlier, interrupted run result.
    pub resumed: usize,
    /// The answer.
    pub outcome: Outcome,
    /// The clean builds that verify the answer, if there are any.
    pub verified: Vec<BisectStep>,
    /// Exact mode's seeds, which must agree on each commit.
    pub seeds: Vec<u64>,
    /// Live mode's plan of runs.
    pub plan: Option<RepetitionPlan>,
    /// `exact` or `live`; absent if no guest was run.
    pub mode: Option<String>,
    /// The accelerator that ran.
    pub accelerator: Option<String>,
    /// QEMU's version.
    pub qemu: Option<String>,
    /// SHA-256 of the initramfs.
    pub guest_image: Option<String>,
    /// The command that repeats it.
    pub repeat: String,
    /// The exit code.
    pub exit_code: u8,
}

/// The answer of a bisection. Commits are whole ids.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum Outcome {
    /// One commit is the first bad one.
    Found {
        /// The commit.
        commit: String,
    },
    /// The first bad commit is one of these; all but the last were skipped.
    Range {
        /// The commits; the last one is known to be bad.
        commits: Vec<String>,
    },
    /// An end is not what the user says it is.
    End {
        /// Which end.
        role: CommitRole,
        /// The commit.
        commit: String,
        /// Its mark.
        mark: Mark,
        /// Why.
        why: String,
    },
    /// A build from scratch contradicts the search.
    Unverified {
        /// What the search found.
        commit: String,
    },
}

impl Outcome {
    pub(super) fn end(step: &BisectStep) -> Outcome {
        Outcome::End {
            role: step.role,
            commit: step.commit.clone(),
            mark: step.result.mark,
            why: step.result.why.clone(),
        }
    }

    /// 0 if one commit was found, else 3.
    pub fn exit_code(&self) -> u8 {
        match self {
            Outcome::Found { .. } => 0,
            _ => 3,
        }
    }
}

/// The report as text.
pub fn text(report: &Report) -> String {
    let mut text = heading(report);
    text.push_str(&table(&report.steps));
    for step in &report.steps {
        let shown = step.shown();
        if step.result.mark == Mark::Skip {
            let why = escape(step.result.why.as_bytes());
            text.push_str(&format!("\n{shown} was skipped: {why}\n"));
        }
        if let Some(host) = &step.result.host {
            let host = escape(host.as_bytes());
            text.push_str(&format!(
                "  this machine may be the cause ({host}): the same command tries it again\n"
            ));
        }
        for note in &step.result.notes {
            text.push_str(&format!("{shown}: {}\n", escape(note.as_bytes())));
        }
    }
    text.push('\n');
    text.push_str(&answer(report));
    if report.mode.as_deref() == Some("exact") {
        text.push_str(
            "Exact mode runs one interleaving per seed: it shows the code's decisions, not races, \
             cache effects, latency or throughput.\n",
        );
    }
    text + &format!("repeat: {}\n", report.repeat)
}

fn heading(report: &Report) -> String {
    let mut text = format!("{} in {}\n", report.scenario, report.repository.display());
    if let (Some(mode), Some(accelerator), Some(qemu), Some(image)) = (
        &report.mode,
        &report.accelerator,
        &report.qemu,
        &report.guest_image,
    ) {
        let how = match report.plan {
            Some(plan) => format!("\n{plan}"),
            None => {
                let seeds: Vec<String> = report.seeds.iter().map(u64::to_string).collect();
                format!(", seeds {}", seeds.join(" "))
            }
        };
        let image = short(image);
        text.push_str(&format!(
            "{mode} mode, {accelerator}, QEMU {qemu}, guest image {image}{how}\n"
        ));
    }
    if report.resumed > 0 {
        let resumed = report.resumed;
        text.push_str(&format!(
            "the first {resumed} commits were judged by an earlier, interrupted run\n"
        ));
    }
    text + "\n"
}

fn table(steps: &[BisectStep]) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(["", "commit", "", "seen", "build", "guests", ""]);
    for index in [0, 3, 4, 5] {
        if let Some(column) = table.column_mut(index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    for (number, step) in (1..).zip(steps) {
        let result = &step.result;
        let role = match (step.role, step.clean) {
            (CommitRole::GoodEnd, _) => "good end: ",
            (CommitRole::BadEnd, _) => "bad end: ",
            (_, true) => "clean build: ",
            (_, false) => "",
        };
        let guests = match (result.folders.len(), result.cached) {
            (0, _) => "-".to_owned(),
            (all, cached) if all == cached => "cached".to_owned(),
            _ => format!("{:.1} s", result.guest_seconds),
        };
        table.add_row([
            number.to_string(),
            abbreviated(&step.commit).to_owned(),
            result.mark.to_string(),
            seen(step),
            format!("{:.1} s", result.build_seconds),
            guests,
            format!("{role}{}", escape(step.subject.as_bytes())),
        ]);
    }
    let mut text = String::new();
    for line in table.lines() {
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// The first expectation's values: one, or the least and the greatest over the runs.
fn seen(step: &BisectStep) -> String {
    let Some(values) = step.result.values.values().next() else {
        return "-".to_owned();
    };
    let known: Option<Vec<i64>> = values.iter().copied().collect();
    match known.map(|values| (values.iter().min().copied(), values.iter().max().copied())) {
        Some((Some(low), Some(high))) if low == high => low.to_string(),
        Some((Some(low), Some(high))) => format!("{low} to {high}"),
        _ => "?".to_owned(),
    }
}

fn answer(report: &Report) -> String {
    let step_of = |id: &str| report.steps.iter().find(|step| step.commit == id);
    let named =
        |id: &str| step_of(id).map_or_else(|| abbreviated(id).to_owned(), BisectStep::shown);
    match &report.outcome {
        Outcome::Found { commit } => {
            let mut text = format!("{commit} is the first bad commit\n  {}\n", named(commit));
            if let Some(step) = step_of(commit) {
                text.push_str(&format!("  {}\n", escape(step.result.why.as_bytes())));
            }
            text.push_str(match report.verified.len() {
                0 => "not verified by a clean build (--no-verify)\n",
                1 => "verified: built from scratch, it is bad\n",
                _ => "verified: built from scratch, it is bad and its parent is good\n",
            });
            if let Some(step) = report.verified.iter().find(|step| differs(report, step)) {
                text.push_str(&format!(
                    "note: the clean build of {} gave another image than the search's build\n",
                    step.shown()
                ));
            }
            text
        }
        Outcome::Range { commits } => {
            let mut text = format!(
                "only skipped commits are left: the first bad commit is one of these {}\n",
                commits.len()
            );
            for id in commits {
                text.push_str(&format!("  {}\n", named(id)));
            }
            let failed = |id: &String| step_of(id).is_some_and(|step| step.result.host.is_some());
            if commits.iter().any(failed) {
                text.push_str(
                    "this machine may have failed for some of them: give the same command again\n",
                );
            }
            text
        }
        Outcome::End {
            role,
            commit,
            mark,
            why,
        } => {
            let end = match role {
                CommitRole::BadEnd => "--bad",
                _ => "--good",
            };
            let is = match mark {
                Mark::Good => "passes",
                Mark::Bad => "fails",
                Mark::Skip => "cannot be judged",
            };
            let why = escape(why.as_bytes());
            format!(
                "{end} {} {is}: {why}\nnothing was searched\n",
                named(commit)
            )
        }
        Outcome::Unverified { commit } => format!(
            "the search found {}, but a clean build contradicts it: there is no answer\n",
            named(commit)
        ),
    }
}

/// Whether a clean build's image differs from the search's.
fn differs(report: &Report, clean: &BisectStep) -> bool {
    let mut steps = report.steps.iter();
    let other = steps.find(|step| step.commit == clean.commit && !step.clean);
    other.is_some_and(|other| other.result.image != clean.result.image)
}
