//! Which commit is next. git chooses it as `git bisect` does, but nothing is written into the
//! repository.

use std::collections::BTreeSet;

use numalab_kernels::source::repository::{Repository, RepositoryError};

/// The commits between what is good and what is bad.
#[derive(Debug)]
pub(super) struct Graph<'a> {
    repository: &'a Repository,
    /// Whether only the first parents of merges are followed.
    first_parent: bool,
}

/// A commit that may be the first bad one. `distance` is the least number of commits that
/// judging it rules out, whether it is good or bad.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Candidate {
    pub(super) id: String,
    pub(super) distance: u64,
}

/// What to do next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Next {
    Judge(String),
    /// Only the bad commit is left: it is the first bad one.
    Found,
    /// The first bad commit is the bad one or one of these, all of which were skipped.
    OnlySkipped(Vec<String>),
}

impl<'a> Graph<'a> {
    pub(super) fn new(repository: &'a Repository, first_parent: bool) -> Graph<'a> {
        Graph {
            repository,
            first_parent,
        }
    }

    /// Chooses the next commit to judge; those in `skipped` were skipped.
    pub(super) fn next(
        &self,
        bad: &str,
        good: &[String],
        skipped: &BTreeSet<String>,
    ) -> Result<Next, RepositoryError> {
        // Finding only the best one is much faster than ranking all.
        let said = self.list("--bisect-vars", bad, good)?;
        let value = |name: &str| {
            said.lines()
                .find_map(|line| line.strip_prefix(name)?.strip_prefix('='))
                .map(|value| value.trim_matches('\''))
        };
        let best = value("bisect_rev").filter(|best| !best.is_empty() && *best != bad);
        if let Some(best) = best
            && !skipped.contains(best)
        {
            return Ok(Next::Judge(best.to_owned()));
        }
        let said = self.list("--bisect-all", bad, good)?;
        let candidates: Vec<Candidate> = said.lines().filter_map(candidate).collect();
        Ok(choose(&candidates, bad, skipped))
    }

    /// How many commits may be the first bad one: those reachable from `bad`, itself included,
    /// and from no good one.
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

    /// The best common ancestors of two commits; none if their histories are unrelated.
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

    /// Whether a shallow clone lacks commits that decide which ones are between `good` and `bad`:
    /// one between them has no parents here.
    pub(super) fn is_cut(&self, good: &str, bad: &str) -> Result<bool, RepositoryError> {
        let words = ["rev-parse", "--is-shallow-repository"];
        let is_shallow = self
            .repository
            .ask("find out whether it is shallow", &words)?;
        if is_shallow.trim() != "true" {
            return Ok(false);
        }
        let excluded = format!("^{good}");
        let words = [
            "rev-list",
            "--max-count=1",
            "--max-parents=0",
            bad,
            &excluded,
        ];
        let roots = self
            .repository
            .ask("list commits without parents", &words)?;
        Ok(!roots.trim().is_empty())
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

/// Chooses the best candidate that was not skipped.
///
/// The neighbours of a skipped commit are likely to be skipped, too, so the choice moves away
/// from it by a distance that varies, as `git bisect skip` does.
pub(super) fn choose(candidates: &[Candidate], bad: &str, skipped: &BTreeSet<String>) -> Next {
    let others: Vec<&Candidate> = candidates.iter().filter(|one| one.id != bad).collect();
    let Some(best) = others.first() else {
        return Next::Found;
    };
    let open: Vec<&&Candidate> = others
        .iter()
        .filter(|one| !skipped.contains(&one.id))
        .collect();
    if open.is_empty() {
        return Next::OnlySkipped(others.iter().map(|one| one.id.clone()).collect());
    }
    if !skipped.contains(&best.id) {
        return Next::Judge(best.id.clone());
    }
    let place = match (others.len() - open.len()) % 4 {
        1 => open.len() / 4,
        2 => open.len() / 2,
        3 => open.len() / 8,
        _ => open.len() * 3 / 8,
    };
    Next::Judge(open[place].id.clone())
}

/// About how many commits are judged before one of `count` candidates is left.
pub(super) fn steps(count: usize) -> u32 {
    match count {
        0 | 1 => 0,
        count => (count - 1).ilog2() + 1,
    }
}
