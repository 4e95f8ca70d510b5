//! Replays a kept run, and compares its records with the new ones byte by byte.

use camino::{Utf8Path, Utf8PathBuf};
use miette::Diagnostic;
use numalab_kernels::Digest;
use tokio_util::sync::CancellationToken;

use crate::error::Error;
use crate::guest::mode::AcceleratorChoice;
use crate::run::inputs::Inputs;
use crate::run::record_diff::RecordDiff;
use crate::run::{RunRequest, Runner};
use crate::scenario::{Scenario, ScenarioError};
use crate::ui::Ui;
use crate::workspace::Workspace;

/// A run that was kept.
#[derive(Debug)]
pub struct Kept {
    pub(crate) inputs: Inputs,
    pub(crate) scenario: Scenario,
    plan: serde_json::Value,
    pub(crate) records: Vec<u8>,
}

/// Why a folder is no run that can be replayed.
#[derive(Debug, thiserror::Error, Diagnostic)]
pub enum ReplayError {
    /// A file is missing or cannot be read.
    #[error("{folder:?} is no run's folder: {file} cannot be read")]
    #[diagnostic(help(
        "reports name the folders of their runs, which are in NUMALAB_RUNS, or in \
                       target/numalab/runs"
    ))]
    File {
        /// The folder.
        folder: Utf8PathBuf,
        /// The file.
        file: &'static str,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// The folder of a command that made several runs.
    #[error("{folder} is the folder of several runs: name one of them")]
    #[diagnostic(help("{}", listed(runs)))]
    Several {
        /// The folder.
        folder: Utf8PathBuf,
        /// The folders of the runs.
        runs: Vec<String>,
    },
    /// The inputs are those of another version.
    #[error("{folder}/inputs.json cannot be understood; it may be of another version of numalab")]
    Inputs {
        /// The folder.
        folder: Utf8PathBuf,
        /// What the parser said.
        #[source]
        source: serde_json::Error,
    },
    /// The scenario cannot be used any more.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Scenario(#[from] ScenarioError),
    /// The guest sent no records.
    #[error("{folder} has no records: the guest ended before it sent any")]
    Silent {
        /// The folder.
        folder: Utf8PathBuf,
    },
    /// A live run.
    #[error("{folder} is a live run: only exact runs can be replayed")]
    Live {
        /// The folder.
        folder: Utf8PathBuf,
    },
    /// The kernel's image is gone or another one.
    #[error("the kernel of {folder} is no longer available: {why}")]
    #[diagnostic(help("`numalab kernel build {name}` builds it again, if it is one of ours"))]
    Kernel {
        /// The folder.
        folder: Utf8PathBuf,
        /// The kernel's name.
        name: String,
        /// What is wrong.
        why: String,
    },
}

/// The runs' folders that the report in a folder names: those of a whole command, a
/// comparison, a check or a bisection.
fn runs_of(folder: &Utf8Path) -> Vec<String> {
    fn gather(value: &serde_json::Value, into: &mut Vec<String>) {
        match value {
            serde_json::Value::Object(fields) => {
                let of_a_run = fields.contains_key("judgement");
                if let Some(folder) = fields.get("folder").filter(|_| of_a_run) {
                    into.extend(folder.as_str().map(str::to_owned));
                }
                fields.values().for_each(|value| gather(value, into));
            }
            serde_json::Value::Array(values) => {
                values.iter().for_each(|value| gather(value, into));
            }
            _ => {}
        }
    }
    let text = std::fs::read(folder.join("report.json")).unwrap_or_default();
    let mut runs = Vec::new();
    if let Ok(report) = serde_json::from_slice(&text) {
        gather(&report, &mut runs);
    }
    runs
}

/// How many runs are listed.
const LISTED: usize = 12;

fn listed(runs: &[String]) -> String {
    let mut text = String::from("its runs:");
    for run in runs.iter().take(LISTED) {
        text.push_str("\n  ");
        text.push_str(run);
    }
    match runs.len().checked_sub(LISTED) {
        Some(more @ 1..) => format!("{text}\n  and {more} more, in its report.json"),
        _ => text,
    }
}

impl Kept {
    /// Reads a run's folder.
    ///
    /// # Errors
    /// It is none, a live one, or its kernel is gone.
    pub fn read(folder: &Utf8Path) -> Result<Kept, ReplayError> {
        let folder = folder.to_owned();
        let runs = runs_of(&folder);
        if !folder.join("inputs.json").exists() && !runs.is_empty() {
            return Err(ReplayError::Several { folder, runs });
        }
        let read = |file: &'static str| {
            std::fs::read(folder.join(file)).map_err(|source| ReplayError::File {
                folder: folder.clone(),
                file,
                source,
            })
        };
        let inputs: Inputs = serde_json::from_slice(&read("inputs.json")?).map_err(|source| {
            ReplayError::Inputs {
                folder: folder.clone(),
                source,
            }
        })?;
        let plan =
            serde_json::from_slice(&read("plan.json")?).map_err(|source| ReplayError::Inputs {
                folder: folder.clone(),
                source,
            })?;
        let text = String::from_utf8_lossy(&read("scenario.yaml")?).into_owned();
        let records = read("records.jsonl")?;
        let scenario = Scenario::parse(&inputs.scenario_file, &text)?;
        if inputs.mode != "exact" {
            return Err(ReplayError::Live { folder });
        }
        if records.is_empty() {
            return Err(ReplayError::Silent { folder });
        }
        let why = match Digest::of_file(inputs.kernel.path.as_std_path()) {
            Err(error) => Some(format!("{}: {error}", inputs.kernel.path)),
            Ok(digest) if digest.to_string() != inputs.kernel.digest => {
                Some(format!("{} is another image now", inputs.kernel.path))
            }
            Ok(_) => None,
        };
        if let Some(why) = why {
            return Err(ReplayError::Kernel {
                folder,
                name: inputs.kernel.name,
                why,
            });
        }
        Ok(Kept {
            inputs,
            scenario,
            plan,
            records,
        })
    }

    /// What has changed since then and may explain different records. `again` is the new run's
    /// folder.
    fn changed(&self, again: &Utf8Path, now: &Inputs) -> Vec<String> {
        let then = &self.inputs;
        let pairs = [
            ("QEMU", &then.qemu, &now.qemu),
            ("the firmware", &then.firmware, &now.firmware),
            ("the guest image", &then.image, &now.image),
            ("numalab", &then.numalab, &now.numalab),
        ];
        let mut changed: Vec<String> = pairs
            .into_iter()
            .filter(|(_, then, now)| then != now)
            .map(|(what, then, now)| format!("{what} was {then} and is {now}"))
            .collect();
        // What the scenario's text means may have changed, or the machine was another one.
        let plan = std::fs::read(again.join("plan.json"))
            .ok()
            .and_then(|text| serde_json::from_slice::<serde_json::Value>(&text).ok());
        if plan.as_ref() != Some(&self.plan) {
            changed.push("the plan made from the kept scenario is another one".into());
        }
        changed
    }
}

/// Runs a kept run again. Returns how the records compare, the new run's folder, and what has
/// changed since then.
///
/// # Errors
/// The host cannot run it, or a signal came.
pub async fn run(
    workspace: &Workspace,
    kept: &Kept,
    ui: &Ui,
    cancel: &CancellationToken,
) -> Result<(RecordDiff, Utf8PathBuf, Vec<String>), Error> {
    let inputs = &kept.inputs;
    // Cold, so that the result does not depend on a snapshot.
    let builder = Runner::check(workspace, false, AcceleratorChoice::Auto)?.cold(true);
    let runner = builder.ready(&inputs.kernel, ui, cancel).await?;
    let request = RunRequest::new(
        &kept.scenario,
        &inputs.kernel,
        inputs.seed,
        inputs.shift,
        &inputs.append,
    )?
    .watching(inputs.watch.clone());
    let again = runner.run(&request, ui, cancel).await?;
    let path = again.folder.join("records.jsonl");
    let records = std::fs::read(&path).map_err(Error::file("read", &path))?;
    let changed = kept.changed(&again.folder, &again.inputs);
    Ok((
        RecordDiff::of(&kept.records, &records),
        again.folder,
        changed,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_of_several_runs_names_them() {
        let scratch = tempfile::tempdir().unwrap();
        let folder = Utf8Path::from_path(scratch.path()).unwrap();
        let run = |name: String| serde_json::json!({ "judgement": {}, "folder": name });
        let runs: Vec<_> = (1..=14).map(|seed| run(format!("run-{seed}"))).collect();
        let report = serde_json::json!({ "scenarios": [{ "base": runs, "patched": [] }] });
        std::fs::write(folder.join("report.json"), report.to_string()).unwrap();
        let error = Kept::read(folder).unwrap_err();
        assert!(matches!(&error, ReplayError::Several { runs, .. } if runs.len() == 14));
        let help = error.help().unwrap().to_string();
        assert!(help.starts_with("its runs:\n  run-1\n  run-2\n"), "{help}");
        assert!(
            help.ends_with("run-12\n  and 2 more, in its report.json"),
            "{help}"
        );
        std::fs::write(folder.join("report.json"), "{}").unwrap();
        assert!(matches!(Kept::read(folder), Err(ReplayError::File { .. })));
    }
}
