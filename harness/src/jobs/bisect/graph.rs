//! Which commit is next: git chooses, as `git bisect` does, without a word written into the
//! repository.

use std::collections::BTreeSet;

use numalab_kernels::source::repository::{Repository, RepositoryError};

/// The commits between what is good and what is bad.
#[derive(Debug)]
pub(super) struct Graph<'a> {
    repository: &'a Repository,
    /// Only the first parents of merges are gone to.
    first_parent: bool,
}

/// A commit that may be the first bad one, and how well testing it halves the others: the
/// lesser number of commits that either answer rules out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Candidate {
    pub(super) id: String,
    pub(super) distance: u64,
}

/// What to do next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Next {
    /// Judge this one.
    Judge(String),
    /// Nothing is left but the bad one: it is the first.
    Found,
    /// What is left cannot be judged: the first bad one is one of these or the bad one.
    Among(Vec<String>),
}

impl<'a> Graph<'a> {
    pub(super) fn new(repository: &'a Repository, first_parent: bool) -> Graph<'a> {
        Graph {
            repository,
            first_parent,
        }
    }

    /// Chooses the next one; those in `unknown` cannot be judged.
    pub(super) fn next(
        &self,
        bad: &str,
        good: &[String],
        unknown: &BTreeSet<String>,
    ) -> Result<Next, RepositoryError> {
        // The best one alone is found much sooner than the order of all.
        let said = self.list("--bisect-vars", bad, good)?;
        let value = |name: &str| {
            said.lines()
                .find_map(|line| line.strip_prefix(name)?.strip_prefix('='))
                .map(|value| value.trim_matches('\''))
        };
        let best = value("bisect_rev").filter(|best| !best.is_empty() && *best != bad);
        if let Some(best) = best
            && !unknown.contains(best)
        {
            return Ok(Next::Judge(best.to_owned()));
        }
        let said = self.list("--bisect-all", bad, good)?;
        let candidates: Vec<Candidate> = said.lines().filter_map(candidate).collect();
        Ok(choose(&candidates, bad, unknown))
    }

    /// How many commits may be the first bad one: those that are reachable from `bad`,
    /// itself included, and from no good one.
    pub(super) fn count(&self, bad: &str, good: &[String]) -> Result<usize, RepositoryError> {
        let said = self.list("--count", bad, good)?;
        Ok(said.trim().parse().unwrap_or(0))
    }

    fn list(&self, how: &str, bad: &str, good: &[String]) -> Result<String, RepositoryError> {
        let mut words = vec!["rev-list", how];
        if self.first_parent {
            words.push("--first-parent");
        }
        let excluded: Vec<String> = good.iter().map(|id| format!("^{id}")).collect();
        words.push(bad);
        words.extend(excluded.iter().map(String::as_str));
        self.repository.ask("choose a commit", &words)
    }

    /// Whether `old` is `new` or an ancestor of it.
    pub(super) fn is_ancestor(&self, old: &str, new: &str) -> Result<bool, RepositoryError> {
        let excluded = format!("^{new}");
        let words = ["rev-list", "--max-count=1", old, &excluded];
        Ok(self
            .repository
            .ask("compare commits", &words)?
            .trim()
            .is_empty())
    }

    /// The commits from which two have parted; none if they have nothing in common, as far
    /// as a shallow clone knows.
    pub(super) fn merge_bases(&self, one: &str, other: &str) -> Vec<String> {
        self.repository
            .ask("find the merge base", &["merge-base", "--all", one, other])
            .map(|said| said.lines().map(str::to_owned).collect())
            .unwrap_or_default()
    }

    /// A commit's first parent; `None` for a root.
    pub(super) fn parent(&self, id: &str) -> Result<Option<String>, RepositoryError> {
        let words = ["rev-list", "--max-count=1", "--parents", id];
        let said = self.repository.ask("find the parent", &words)?;
        Ok(said.split_whitespace().nth(1).map(str::to_owned))
    }

    /// Whether history ends early here.
    pub(super) fn is_shallow(&self) -> bool {
        self.repository
            .ask(
                "look at the clone",
                &["rev-parse", "--is-shallow-repository"],
            )
            .is_ok_and(|said| said.trim() == "true")
    }
}

/// A line of `--bisect-all`: an id and, in parentheses, the distance and maybe names.
fn candidate(line: &str) -> Option<Candidate> {
    let (id, rest) = line.split_once(' ').unwrap_or((line, ""));
    let distance = rest
        .trim_start_matches('(')
        .split([',', ')'])
        .find_map(|part| part.trim().strip_prefix("dist="))
        .and_then(|number| number.parse().ok())
        .unwrap_or(0);
    (!id.is_empty()).then(|| Candidate {
        id: id.to_owned(),
        distance,
    })
}

/// Chooses among candidates, of which those in `unknown` cannot be judged.
///
/// The best one is taken. If that cannot be judged, its neighbours are likely not to be
/// either, so the choice goes away from the middle, another way each time, as git's own
/// skipping does.
pub(super) fn choose(candidates: &[Candidate], bad: &str, unknown: &BTreeSet<String>) -> Next {
    let others: Vec<&Candidate> = candidates.iter().filter(|one| one.id != bad).collect();
    let Some(best) = others.first() else {
        return Next::Found;
    };
    let open: Vec<&&Candidate> = others
        .iter()
        .filter(|one| !unknown.contains(&one.id))
        .collect();
    if open.is_empty() {
        return Next::Among(others.iter().map(|one| one.id.clone()).collect());
    }
    if !unknown.contains(&best.id) {
        return Next::Judge(best.id.clone());
    }
    let skipped = others.len() - open.len();
    // Quarters of what is left, best first.
    let place = match skipped % 4 {
        1 => open.len() / 4,
        2 => open.len() / 2,
        3 => open.len() / 8,
        _ => open.len() * 3 / 8,
    };
    Next::Judge(open[place].id.clone())
}

/// About how many commits are judged until one of `count` candidates is left.
pub(super) fn steps(count: usize) -> u32 {
    match count {
        0 | 1 => 0,
        count => (count - 1).ilog2() + 1,
    }
}
