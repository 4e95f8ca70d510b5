//! `numalab kernel source`.

use std::fmt::Write as _;

use camino::Utf8PathBuf;
use numalab_kernels::build;
use serde::Serialize;

use super::context::Context;
use super::exit::{Failure, GOOD};
use crate::workspace::{Limits, Workspace, utf8};

pub(super) const HELP: &str = "\
Exit codes: 0 done, 2 wrong input, 3 the source cannot be fetched, 130 interrupted.

Example: numalab kernel source linux-6.12 --clone my-linux";

#[derive(Debug, clap::Args)]
pub(super) struct SourceArgs {
    /// The kernel spec, such as `linux-6.12` or `linux-6.12+fix.patch`.
    kernel: String,
    /// Make a git work tree in this folder, which must not exist or be empty. The source is its
    /// commit `base`, and the patches of the kernel spec are commits on top.
    #[arg(long, value_name = "DIR")]
    clone: Option<Utf8PathBuf>,
}

#[derive(Debug, Serialize)]
struct Found {
    kernel: String,
    version: String,
    source: String,
    copy: Utf8PathBuf,
    #[serde(skip_serializing_if = "Option::is_none")]
    work_tree: Option<Utf8PathBuf>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    commits: Vec<String>,
}

pub(super) fn source(args: &SourceArgs, context: &Context) -> Result<u8, Failure> {
    let workspace = Workspace::open()?;
    let kernel = workspace.wanted(&args.kernel)?;
    let limits = Limits::default();
    let source = workspace.build(limits, &context.cancel, |options, cancel| {
        let clone = args.clone.as_ref().map(|path| path.as_std_path());
        build::source(
            &workspace.cache,
            &kernel,
            clone,
            options,
            &context.ui,
            cancel,
        )
    })?;
    let found = Found {
        kernel: kernel.name,
        version: source.identity.version,
        source: source.identity.source.to_string(),
        copy: utf8(&source.copy)?,
        work_tree: args.clone.clone(),
        commits: source.commits,
    };
    context.print(&found, || text(&found, &args.kernel))?;
    Ok(GOOD)
}

fn text(found: &Found, spec: &str) -> String {
    let mut text = format!(
        "{}: {}\n  source: {}\n  copy in the cache, which builds overwrite: {}\n",
        found.kernel, found.version, found.source, found.copy
    );
    // Writing to a string cannot fail.
    let _ = match &found.work_tree {
        None => writeln!(
            text,
            "  a git work tree to edit: numalab kernel source '{spec}' --clone DIR"
        ),
        Some(folder) => writeln!(
            text,
            "  git work tree: {folder} ({})\n  after a commit there: git -C {folder} format-patch -1; \
             numalab check PATCH --base '{spec}'",
            found.commits.join(", ")
        ),
    };
    text
}
