//! What a bisection found, as `report.json` and as text.

use std::fmt::Write as _;

use comfy_table::{CellAlignment, Table, presets};
use numalab_kernels::source::repository::abbreviated;
use serde::{Deserialize, Serialize};

use super::answer::Answer;
use super::confidence::RepetitionPlan;
use super::{Role, Step};
use crate::guest::escape::escape;
use crate::kernel_id::short;

/// What a bisection found.
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
    /// All judged commits, in order.
    pub steps: Vec<Step>,
    /// How many of them an interrupted run of the same command had done.
    pub resumed: usize,
    /// The answer.
    pub outcome: Outcome,
    /// The clean builds that verify it; none if that was not wanted or not reached.
    pub verified: Vec<Step>,
    /// Exact mode's seeds, which had to agree on each commit.
    pub seeds: Vec<u64>,
    /// Live mode's number of runs.
    pub plan: Option<RepetitionPlan>,
    /// `exact` or `live`; absent if no guest had to be run.
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
        /// It.
        commit: String,
    },
    /// The first bad commit is one of these: those before the last cannot be judged.
    Range {
        /// They; the last one is known to be bad.
        commits: Vec<String>,
    },
    /// An end, or the commit from which both parted, is not what it has to be.
    End {
        /// Which.
        role: Role,
        /// It.
        commit: String,
        /// What it is.
        answer: Answer,
        /// Why.
        why: String,
    },
    /// A build from nothing says otherwise than the search.
    Unverified {
        /// What the search found.
        commit: String,
    },
}

impl Outcome {
    pub(super) fn end(step: &Step) -> Outcome {
        Outcome::End {
            role: step.role,
            commit: step.commit.clone(),
            answer: step.judged.answer,
            why: step.judged.why.clone(),
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
    let mut text = String::new();
    let _ = writeln!(
        text,
        "{} in {}",
        report.scenario,
        report.repository.display()
    );
    if let (Some(mode), Some(accelerator), Some(qemu), Some(image)) = (
        &report.mode,
        &report.accelerator,
        &report.qemu,
        &report.guest_image,
    ) {
        let _ = write!(
            text,
            "{mode} mode, {accelerator}, QEMU {qemu}, guest image {}",
            short(image)
        );
        match report.plan {
            Some(plan) => {
                let _ = writeln!(text, "\n{plan}");
            }
            None => {
                let seeds: Vec<String> = report.seeds.iter().map(u64::to_string).collect();
                let _ = writeln!(text, ", seeds {}", seeds.join(" "));
            }
        }
    }
    if report.resumed > 0 {
        let _ = writeln!(
            text,
            "the first {} commits were judged before an interruption",
            report.resumed
        );
    }
    text.push('\n');
    text.push_str(&table(&report.steps));
    for step in &report.steps {
        if step.judged.answer == Answer::CannotJudge {
            let why = escape(step.judged.why.as_bytes());
            let _ = writeln!(text, "\n{} cannot be judged: {why}", shown(step));
        }
        for note in &step.judged.notes {
            let _ = writeln!(text, "{}: {}", shown(step), escape(note.as_bytes()));
        }
    }
    text.push('\n');
    text.push_str(&answer(report));
    if report.mode.as_deref() == Some("exact") {
        text.push_str(
            "Exact mode runs one interleaving for each seed: it shows what the code decides, not \
             races, cache effects, latency or throughput.\n",
        );
    }
    let _ = writeln!(text, "repeat: {}", report.repeat);
    text
}

fn table(steps: &[Step]) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(["", "commit", "", "seen", "build", "guests", ""]);
    for index in [0, 3, 4, 5] {
        if let Some(column) = table.column_mut(index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    for (number, step) in (1..).zip(steps) {
        let judged = &step.judged;
        let role = match (step.role, step.clean) {
            (Role::GoodEnd, _) => "good end: ",
            (Role::BadEnd, _) => "bad end: ",
            (Role::MergeBase, _) => "merge base: ",
            (_, true) => "clean build: ",
            (_, false) => "",
        };
        let guests = match (judged.folders.len(), judged.cached) {
            (0, _) => "-".to_owned(),
            (all, cached) if all == cached => "known".to_owned(),
            _ => format!("{:.1} s", judged.guest_seconds),
        };
        table.add_row([
            number.to_string(),
            abbreviated(&step.commit).to_owned(),
            judged.answer.to_string(),
            seen(step),
            format!("{:.1} s", judged.build_seconds),
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
fn seen(step: &Step) -> String {
    let Some(values) = step.judged.values.values().next() else {
        return "-".to_owned();
    };
    let known: Option<Vec<i64>> = values.iter().copied().collect();
    match known.map(|values| (values.iter().min().copied(), values.iter().max().copied())) {
        Some((Some(low), Some(high))) if low == high => low.to_string(),
        Some((Some(low), Some(high))) => format!("{low} to {high}"),
        _ => "?".to_owned(),
    }
}

fn shown(step: &Step) -> String {
    let subject = escape(step.subject.as_bytes());
    format!("{} (\"{subject}\")", abbreviated(&step.commit))
}

fn answer(report: &Report) -> String {
    let mut text = String::new();
    let named = |id: &str| {
        let step = report.steps.iter().find(|step| step.commit == id);
        step.map_or_else(|| abbreviated(id).to_owned(), shown)
    };
    match &report.outcome {
        Outcome::Found { commit } => {
            let _ = writeln!(text, "{commit} is the first bad commit");
            let _ = writeln!(text, "  {}", named(commit));
            if let Some(step) = report.steps.iter().find(|step| step.commit == *commit) {
                let _ = writeln!(text, "  {}", escape(step.judged.why.as_bytes()));
            }
            let verified = match report.verified.len() {
                0 => "not verified by a clean build, as was asked for",
                1 => "verified: built from nothing, it is bad",
                _ => "verified: built from nothing, it is bad and its parent is good",
            };
            let _ = writeln!(text, "{verified}");
            let other = report.verified.iter().find(|step| differs(report, step));
            if let Some(step) = other {
                let _ = writeln!(
                    text,
                    "note: the clean build of {} is another image than the search's",
                    shown(step)
                );
            }
        }
        Outcome::Range { commits } => {
            let _ = writeln!(
                text,
                "there are only commits left that cannot be judged: the first bad commit is one of \
                 these {}",
                commits.len()
            );
            for id in commits {
                let _ = writeln!(text, "  {}", named(id));
            }
        }
        Outcome::End {
            role,
            commit,
            answer,
            why,
        } => {
            let what = match role {
                Role::GoodEnd => "--good",
                Role::BadEnd => "--bad",
                _ => "the merge base of the ends,",
            };
            let is = match answer {
                Answer::Good => "passes",
                Answer::Bad => "fails",
                Answer::CannotJudge => "cannot be judged",
            };
            let _ = writeln!(
                text,
                "{what} {} {is}: {}",
                named(commit),
                escape(why.as_bytes())
            );
            if *role == Role::MergeBase {
                let _ = writeln!(
                    text,
                    "the fault was not made between it and --bad: it was mended on the way to --good"
                );
            }
            let _ = writeln!(text, "nothing was searched");
        }
        Outcome::Unverified { commit } => {
            let _ = writeln!(
                text,
                "the search ends at {}, and a clean build says otherwise: nothing is blamed",
                named(commit)
            );
        }
    }
    text
}

/// Whether a clean build's image is not the one that was searched with.
fn differs(report: &Report, clean: &Step) -> bool {
    let mut steps = report.steps.iter();
    let other = steps.find(|step| step.commit == clean.commit && !step.clean);
    other.is_some_and(|other| other.judged.image != clean.judged.image)
}
