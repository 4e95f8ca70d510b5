//! What is searched: a good and a bad commit, and what is wrong with them before any build.

use numalab_kernels::source::repository::{Commit, Repository, RepositoryError};

use super::graph::Graph;

/// The oldest kernel that can be built for a guest.
const OLDEST: (u64, u64) = (5, 0);

/// What to search.
#[derive(Debug)]
pub struct BisectRequest<'a> {
    /// The repository.
    pub repository: &'a Repository,
    /// A commit that passes.
    pub good: Commit,
    /// A later one that fails.
    pub bad: Commit,
    /// Whether only the first parents of merges are followed.
    pub first_parent: bool,
    /// Whether the answer is verified by builds from scratch.
    pub verify: bool,
    /// Whether the results of an interrupted run are discarded.
    pub restart: bool,
    /// The command that repeats it.
    pub repeat: String,
}

/// Why there is nothing to search.
#[derive(Debug, thiserror::Error, miette::Diagnostic)]
pub enum BisectError {
    /// The ends are the same.
    #[error("--good and --bad are the same commit, {shown}")]
    Same {
        /// The commit.
        shown: String,
    },
    /// The ends are swapped.
    #[error("--bad {bad} is an ancestor of --good {good}: the good commit must be the older one")]
    #[diagnostic(help(
        "to find the commit that fixed something, bisect with a scenario that passes while the \
         fault is present"
    ))]
    Reversed {
        /// The good end.
        good: String,
        /// The bad end.
        bad: String,
    },
    /// The ends are on different branches.
    #[error("--good {good} is not an ancestor of --bad {bad}: their histories fork at {bases}")]
    #[diagnostic(help(
        "start from there: --good {base}; if that commit turns out to be bad, the fault was fixed \
         on the way to {good}"
    ))]
    Forked {
        /// The good end.
        good: String,
        /// The bad end.
        bad: String,
        /// The merge bases.
        bases: String,
        /// The first one's id.
        base: String,
    },
    /// The ends have nothing in common.
    #[error("--good {good} and --bad {bad} have no common ancestor")]
    Unrelated {
        /// The good end.
        good: String,
        /// The bad end.
        bad: String,
    },
    /// A shallow clone lacks commits between the ends.
    #[error("the clone is shallow, and its history ends between --good {good} and --bad {bad}")]
    #[diagnostic(help("`git fetch --unshallow` fetches the rest of the history"))]
    Shallow {
        /// The good end.
        good: String,
        /// The bad end.
        bad: String,
    },
    /// The good end is too old to be built.
    #[error("--good {good} is Linux {version}: kernels before {}.{} cannot be judged", OLDEST.0, OLDEST.1)]
    #[diagnostic(help(
        "they lack the PVH entry point that QEMU needs to start a vmlinux; choose a later good \
         commit"
    ))]
    TooOld {
        /// The good end.
        good: String,
        /// Its version.
        version: String,
    },
    /// git gives no answer.
    #[error(transparent)]
    Git(#[from] RepositoryError),
}

/// Checks the two ends, as far as that needs no build.
///
/// # Errors
/// There is nothing to search between them.
pub fn check(request: &BisectRequest<'_>) -> Result<(), BisectError> {
    let BisectRequest {
        repository,
        good,
        bad,
        ..
    } = request;
    let graph = Graph::new(repository, request.first_parent);
    let shown = |end: &Commit| crate::guest::escape::escape(end.shown().as_bytes());
    let ends = || (shown(good), shown(bad));
    if good.id == bad.id {
        return Err(BisectError::Same { shown: shown(good) });
    }
    if graph.is_ancestor(&bad.id, &good.id)? {
        let (good, bad) = ends();
        return Err(BisectError::Reversed { good, bad });
    }
    let is_cut = graph.is_cut(&good.id, &bad.id)?;
    if !is_cut && !graph.is_ancestor(&good.id, &bad.id)? {
        let ids = graph.merge_bases(&good.id, &bad.id);
        let (good, bad) = ends();
        let Some(base) = ids.first().cloned() else {
            return Err(BisectError::Unrelated { good, bad });
        };
        let bases = ids.iter().map(|id| Ok(shown(&repository.commit(id)?)));
        let bases = bases
            .collect::<Result<Vec<_>, RepositoryError>>()?
            .join(" and ");
        return Err(BisectError::Forked {
            good,
            bad,
            bases,
            base,
        });
    }
    if is_cut {
        let (good, bad) = ends();
        return Err(BisectError::Shallow { good, bad });
    }
    let makefile = repository.file(&good.id, "Makefile").ok().flatten();
    if let Some(version) = makefile
        .as_deref()
        .and_then(numalab_kernels::version::of_makefile)
    {
        let mut numbers = version
            .split('.')
            .map(|part| part.parse::<u64>().unwrap_or(0));
        let found = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
        if found < OLDEST {
            let good = shown(good);
            return Err(BisectError::TooOld { good, version });
        }
    }
    Ok(())
}
