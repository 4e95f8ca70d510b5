//! A kernel tree that is being edited: which files were saved, which scenarios they concern, and
//! whose results changed. The command builds and runs.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use notify::{EventKind, RecommendedWatcher, RecursiveMode, Watcher as _};
use tokio::sync::watch;

use crate::report::RunReport;
use crate::scenario::Scenario;
use crate::verdict::compare::Side;
use crate::verdict::{Judgement, Verdict};

/// Files that are written within this time of each other, as by git, are one change.
const QUIET: Duration = Duration::from_millis(400);

/// Larger files are not searched for functions.
const SEARCHED_BYTES: u64 = 16 << 20;

/// Why a tree cannot be watched.
#[derive(Debug, thiserror::Error)]
#[error(
    "cannot watch {tree:?}: a kernel tree has some 6000 folders, and sysctl \
     fs.inotify.max_user_watches must allow as many"
)]
pub struct WatchError {
    /// The tree.
    pub tree: PathBuf,
    /// What the system said.
    #[source]
    pub source: notify::Error,
}

/// Waits for files to be saved.
#[derive(Debug)]
pub struct Saves {
    changed: watch::Receiver<BTreeSet<PathBuf>>,
}

/// Watches a tree while it lives.
#[derive(Debug)]
pub struct TreeWatcher {
    saves: watch::Sender<BTreeSet<PathBuf>>,
    _watcher: RecommendedWatcher,
}

impl TreeWatcher {
    /// Starts to watch a tree. Nothing is written into it.
    ///
    /// # Errors
    /// The system does not allow it.
    pub fn new(tree: &Path) -> Result<TreeWatcher, WatchError> {
        let fault = |source| WatchError {
            tree: tree.to_owned(),
            source,
        };
        let (saves, _) = watch::channel(BTreeSet::new());
        let (root, sender) = (tree.to_owned(), saves.clone());
        let mut watcher =
            notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
                let Ok(event) = event else { return };
                if matches!(event.kind, EventKind::Access(_)) {
                    return;
                }
                let paths = event.paths.iter();
                let saved = paths.filter_map(|path| path.strip_prefix(&root).ok());
                let saved: Vec<PathBuf> = saved
                    .filter(|path| is_source(path))
                    .map(Path::to_owned)
                    .collect();
                // An event without a path means that events were lost: something was saved.
                if !saved.is_empty() || event.need_rescan() {
                    sender.send_modify(|all| all.extend(saved));
                }
            })
            .map_err(fault)?;
        watcher
            .watch(tree, RecursiveMode::Recursive)
            .map_err(fault)?;
        Ok(TreeWatcher {
            saves,
            _watcher: watcher,
        })
    }

    /// Waits for what is saved from now on.
    pub fn saves(&self) -> Saves {
        Saves {
            changed: self.saves.subscribe(),
        }
    }

    /// Takes the files that were saved since the last call, relative to the tree.
    pub fn take(&self) -> BTreeSet<PathBuf> {
        let mut taken = BTreeSet::new();
        self.saves.send_if_modified(|all| {
            taken = std::mem::take(all);
            false
        });
        taken
    }
}

impl Saves {
    /// Waits until something is saved.
    pub async fn next(&mut self) {
        if self.changed.changed().await.is_err() {
            // The watcher is gone: nothing will be reported.
            std::future::pending::<()>().await;
        }
    }

    /// Waits until no file was saved for a while (0.4 s).
    pub async fn quiet(&mut self) {
        while tokio::time::timeout(QUIET, self.next()).await.is_ok() {}
    }
}

/// Whether a path in the tree can be a source file, rather than git's own, an editor's backup or
/// a build's output.
pub fn is_source(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let git = path
        .components()
        .next()
        .is_some_and(|first| first.as_os_str() == ".git");
    let editors = name.ends_with('~') || name.starts_with(".#") || name == "4913";
    let leftover = path.extension().is_some_and(|extension| {
        [
            "swp", "swx", "swo", "o", "a", "ko", "cmd", "d", "tmp", "rej", "orig", "lock",
        ]
        .iter()
        .any(|known| extension == *known)
    });
    !(git || editors || leftover)
}

/// Whether a scenario's subject is one of the saved files, or a function whose name is in one.
pub fn touches(scenario: &Scenario, tree: &Path, saved: &BTreeSet<PathBuf>) -> bool {
    saved.iter().any(|path| {
        let by_name = |subject: &String| path.ends_with(subject);
        if scenario.subject.iter().any(by_name) {
            return true;
        }
        let file = tree.join(path);
        let small = std::fs::metadata(&file).is_ok_and(|data| data.len() <= SEARCHED_BYTES);
        let Some(text) = small.then(|| std::fs::read(&file).ok()).flatten() else {
            return false;
        };
        let text = String::from_utf8_lossy(&text);
        scenario
            .subject
            .iter()
            .any(|subject| has_word(&text, subject))
    })
}

fn has_word(text: &str, word: &str) -> bool {
    let part = |letter: Option<char>| letter.is_some_and(|l| l.is_alphanumeric() || l == '_');
    !word.is_empty()
        && text.match_indices(word).any(|(at, _)| {
            !part(text[..at].chars().next_back()) && !part(text[at + word.len()..].chars().next())
        })
}

/// The last result of each scenario.
#[derive(Debug, Default)]
pub struct LastResults {
    results: BTreeMap<String, String>,
}

impl LastResults {
    /// Records the runs of some scenarios, and returns a line for each whose result changed.
    pub fn record(&mut self, reports: &[RunReport]) -> Vec<String> {
        let mut by_scenario: BTreeMap<&str, Vec<Judgement>> = BTreeMap::new();
        for report in reports {
            let judged = by_scenario.entry(&report.inputs.scenario).or_default();
            judged.push(report.judgement.clone());
        }
        let mut changed = Vec::new();
        for (scenario, judged) in by_scenario {
            let now = result(&judged);
            match self.results.insert(scenario.to_owned(), now.clone()) {
                Some(before) if before != now => {
                    changed.push(format!("{scenario} changed from {before} to {now}"));
                }
                _ => {}
            }
        }
        changed
    }

    /// The number of scenarios with each result: `1 fail, 6 pass`.
    pub fn summary(&self) -> String {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for result in self.results.values() {
            *counts.entry(result).or_default() += 1;
        }
        let counts: Vec<String> = counts
            .iter()
            .map(|(result, count)| format!("{count} {result}"))
            .collect();
        counts.join(", ")
    }
}

fn result(judged: &[Judgement]) -> String {
    match Side::of(judged) {
        Side::Unanimous(Verdict::Inconclusive) | Side::Doubtful => "inconclusive".into(),
        Side::Unanimous(verdict) => verdict.to_string(),
        Side::Timing => "unclear".into(),
        Side::Faulty(_) => "kernel fault".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_git_editors_and_builds_write_is_not_a_source() {
        for path in [
            "kernel/sched/fair.c",
            "mm/Makefile",
            ".config",
            "include/linux/mm.h",
        ] {
            assert!(is_source(Path::new(path)), "{path}");
        }
        for path in [
            ".git/index",
            ".git/index.lock",
            "kernel/sched/.fair.c.swp",
            "kernel/sched/fair.c~",
            "kernel/sched/.#fair.c",
            "kernel/sched/4913",
            "kernel/sched/fair.o",
            "kernel/sched/.fair.o.cmd",
        ] {
            assert!(!is_source(Path::new(path)), "{path}");
        }
    }

    #[test]
    fn functions_are_found_as_whole_words() {
        assert!(has_word(
            "static void task_numa_work(struct",
            "task_numa_work"
        ));
        assert!(!has_word("task_numa_work_pending(p)", "task_numa_work"));
        assert!(!has_word("do_task_numa_work(p)", "task_numa_work"));
        assert!(!has_word("anything", ""));
    }

    #[tokio::test]
    async fn saves_are_reported_and_taken_once() {
        let tree = tempfile::tempdir().expect("a folder");
        std::fs::create_dir_all(tree.path().join("kernel/sched")).expect("folders");
        let watching = TreeWatcher::new(tree.path()).expect("watching");
        let mut saves = watching.saves();
        std::fs::write(tree.path().join("kernel/sched/fair.o"), "x").expect("an object");
        std::fs::write(tree.path().join("kernel/sched/fair.c"), "x").expect("a source");
        tokio::time::timeout(Duration::from_secs(20), saves.next())
            .await
            .expect("reported within the deadline");
        saves.quiet().await;
        let taken = watching.take();
        assert_eq!(
            taken,
            BTreeSet::from([PathBuf::from("kernel/sched/fair.c")])
        );
        assert!(watching.take().is_empty());
    }
}
