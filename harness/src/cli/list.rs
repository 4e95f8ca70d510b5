//! `numalab list`: scenarios and kernels.

use super::{Failure, print};
use crate::workspace::Workspace;

pub(super) fn list(json: bool) -> Result<u8, Failure> {
    let workspace = Workspace::open()?;
    let scenarios = workspace.project.scenarios(&[])?;
    if json {
        let scenarios: Vec<_> = scenarios
            .iter()
            .map(|scenario| {
                serde_json::json!({
                    "name": scenario.name,
                    "summary": scenario.summary,
                    "file": scenario.file,
                    "subject": scenario.subject,
                    "fixed-by": scenario.fixed_by,
                    "since": scenario.since.as_ref().map(|since| since.release.to_string()),
                })
            })
            .collect();
        let kernels: Vec<_> = workspace
            .catalog
            .definitions()
            .map(|kernel| {
                serde_json::json!({
                    "name": kernel.name,
                    "summary": kernel.summary,
                    "file": kernel.path.to_string_lossy(),
                    "matrix": kernel.matrix,
                })
            })
            .collect();
        let all = serde_json::json!({ "scenarios": scenarios, "kernels": kernels });
        return print(&format!("{all:#}\n"));
    }
    let mut text = String::from("scenarios\n");
    let scenarios = scenarios
        .iter()
        .map(|scenario| (&scenario.name, &scenario.summary));
    text.push_str(&columns(scenarios));
    text.push_str("\nkernels\n");
    let kernels = workspace
        .catalog
        .definitions()
        .map(|kernel| (&kernel.name, &kernel.summary));
    text.push_str(&columns(kernels));
    print(&text)
}

fn columns<'a>(rows: impl Iterator<Item = (&'a String, &'a String)>) -> String {
    let rows: Vec<_> = rows.collect();
    let width = rows
        .iter()
        .map(|(name, _)| name.len())
        .max()
        .unwrap_or_default();
    rows.iter()
        .map(|(name, summary)| format!("  {name:width$}  {summary}\n"))
        .collect()
}
