//! Where the source of a kernel lies, and a git work tree of it for the user to edit.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;

use super::context::Builder;
use super::options::BuildOptions;
use crate::cache::{Cache, CacheError};
use crate::error::KernelError;
use crate::progress::Progress;
use crate::source::repository::RepositoryError;
use crate::source::tree::{self, Content, SourceTree};
use crate::source::{Identity, SourceError};
use crate::spec::{Direction, KernelSpec, Origin, Patch, Recipe};
use crate::tools::{git, process};

/// The source of a kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelSource {
    /// What it is, with its exact version.
    pub identity: Identity,
    /// The cache's copy of it. It is rewritten by each build, and not for editing.
    pub copy: PathBuf,
    /// The commits of the work tree that was made, the oldest first.
    pub commits: Vec<String>,
}

/// Finds the source of a kernel, fetching it if the cache does not have it. With `work_tree`
/// it also makes a git work tree of it in that folder: a commit `base`, and a commit for each
/// patch of the kernel.
///
/// # Errors
/// The kernel is not built from source, `work_tree` is not empty, or a patch does not apply.
pub fn source(
    cache: &Cache,
    kernel: &KernelSpec,
    work_tree: Option<&Path>,
    options: &BuildOptions,
    progress: &dyn Progress,
    cancel: &AtomicBool,
) -> Result<KernelSource, KernelError> {
    let Origin::Recipe(recipe) = &kernel.origin else {
        let name = kernel.name.clone();
        return Err(SourceError::NoSource { name }.into());
    };
    if let Some(path) = work_tree
        && fs::symlink_metadata(path).is_ok()
        && !fs::read_dir(path).is_ok_and(|mut items| items.next().is_none())
    {
        let path = path.to_owned();
        return Err(SourceError::Occupied { path }.into());
    }
    cache.sweep()?;
    let builder = Builder::new(cache, options, progress, cancel, None);
    builder.tools.check_patch()?;
    let opened = builder.open(&kernel.name, recipe)?;
    let commits = match work_tree {
        Some(path) => builder.make_work_tree(&opened.tree, &opened.identity, recipe, path)?,
        None => Vec::new(),
    };
    Ok(KernelSource {
        copy: opened.tree.src(),
        identity: opened.identity,
        commits,
    })
}

impl Builder<'_> {
    fn make_work_tree(
        &self,
        tree: &SourceTree,
        identity: &Identity,
        recipe: &Recipe,
        path: &Path,
    ) -> Result<Vec<String>, KernelError> {
        let fault = |error| CacheError::io("make", path, error);
        let path = std::path::absolute(path).map_err(fault)?;
        let parent = path.parent().unwrap_or(&path);
        fs::create_dir_all(parent).map_err(fault)?;
        // Beside it, so that nothing half-made has its name.
        let beside = tempfile::TempDir::with_prefix_in(".numalab-", parent).map_err(fault)?;
        let folder = beside.path().join("work-tree");

        tree.bring_to(&BTreeMap::new())?;
        let mut copy = self.tools.command("cp");
        copy.args(["-a", "--reflink=auto"])
            .arg(tree.src())
            .arg(&folder);
        self.run(copy, "copy the source", &path)?;
        let git = |words: &[&str], what: &str| {
            let mut command = git::command(&self.tools.path, &folder);
            command.args(words);
            self.run(command, what, &path)
        };
        let commit = |message: &str| {
            git(&["add", "--all", "--force"], "add files")?;
            let words = [
                "commit",
                "--quiet",
                "--allow-empty",
                "--no-verify",
                "-m",
                message,
            ];
            git(&words, "commit")
        };
        git(&["init", "--quiet"], "make a repository")?;
        commit(&format!("base\n\n{}", identity.version))?;
        git(&["tag", "base"], "tag the base")?;
        let mut commits = vec!["base".to_owned()];
        let mut before: BTreeMap<String, Content> = BTreeMap::new();
        for count in 1..=recipe.patches.len() {
            let scratch = tree.scratch().join("work-tree");
            let patches = &recipe.patches[..count];
            let after = self.work_out(patches, tree, &scratch)?.files;
            for name in before.keys().filter(|name| !after.contains_key(*name)) {
                tree::write(&folder.join(name), tree.pristine(name)?.as_ref())?;
            }
            for (name, content) in &after {
                tree::write(&folder.join(name), content.as_ref())?;
            }
            let title = title(&recipe.patches[count - 1]);
            commit(&title)?;
            commits.push(title);
            before = after;
        }
        fs::rename(&folder, &path).map_err(fault)?;
        Ok(commits)
    }

    fn run(&self, command: Command, what: &str, path: &Path) -> Result<(), KernelError> {
        let (deadline, cancel) = (self.options.fetch_deadline, self.cancel);
        let said = process::output(command, None, what, deadline, cancel)
            .map_err(|error| KernelError::from(SourceError::from(error)))?;
        if said.status.success() {
            return Ok(());
        }
        let refused = RepositoryError::Git {
            what: what.to_owned(),
            path: path.to_owned(),
            said: said.stderr.trim().to_owned(),
        };
        Err(SourceError::from(refused).into())
    }
}

fn title(patch: &Patch) -> String {
    let title = patch.subject.clone().unwrap_or_else(|| patch.name());
    match patch.direction {
        Direction::Apply => title,
        Direction::Revert => format!("Revert \"{title}\""),
    }
}
