//! `numalab list`.

use super::context::Context;
use super::exit::{Failure, GOOD};
use crate::workspace::Workspace;

pub(super) const HELP: &str = "\
Exit codes: 0 listed, 2 a scenario or a kernel definition is wrong.

Example: numalab list --json";

pub(super) fn list(context: &Context) -> Result<u8, Failure> {
    let workspace = Workspace::open()?;
    let scenarios = workspace.project.scenarios(&[])?;
    let kernels: Vec<_> = workspace.catalog.definitions().collect();
    let scenarios_json: Vec<_> = scenarios
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
    let kernels_json: Vec<_> = kernels
        .iter()
        .map(|kernel| {
            serde_json::json!({
                "name": kernel.name,
                "summary": kernel.summary,
                "file": kernel.path.to_string_lossy(),
                "matrix": kernel.matrix,
            })
        })
        .collect();
    let all = serde_json::json!({ "scenarios": scenarios_json, "kernels": kernels_json });
    context.print(&all, || {
        let scenarios = scenarios.iter().map(|found| (&found.name, &found.summary));
        let kernels = kernels.iter().map(|found| (&found.name, &found.summary));
        let (scenarios, kernels) = (columns(scenarios), columns(kernels));
        format!("scenarios\n{scenarios}\nkernels\n{kernels}")
    })?;
    Ok(GOOD)
}

fn columns<'a>(rows: impl Iterator<Item = (&'a String, &'a String)> + Clone) -> String {
    let width = rows.clone().map(|(name, _)| name.len()).max().unwrap_or(0);
    rows.map(|(name, summary)| format!("  {name:width$}  {summary}\n"))
        .collect()
}
