use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use numalab_kernels::source::repository::{Commit, Repository};
use numalab_kernels::{Cache, Digest};

use super::ends::{BisectError, BisectRequest, check};
use super::graph::{Candidate, Next, choose, steps};
use super::report::Outcome;
use super::search::{Commits, Search};
use super::state::State;
use super::step::{BisectStep, CommitResult, CommitRole, Mark};
use crate::error::Error;
use crate::ui::Ui;

/// A repository in which the file `mark` of each commit holds the mark that it gets.
struct TestRepository {
    folder: tempfile::TempDir,
    /// The commits that were judged, and whether from a clean build.
    judged: Vec<(String, bool)>,
}

impl TestRepository {
    fn new() -> TestRepository {
        let repo = TestRepository {
            folder: tempfile::tempdir().unwrap(),
            judged: Vec::new(),
        };
        repo.git(&["init", "--quiet", "--initial-branch=main"]);
        repo.commit("root", "good");
        repo
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    #[track_caller]
    fn git(&self, words: &[&str]) -> String {
        let output = Command::new("git")
            .args([
                "-c",
                "user.name=x",
                "-c",
                "user.email=x@y",
                "-c",
                "gc.auto=0",
            ])
            .args(words)
            .current_dir(self.path())
            .output()
            .unwrap();
        assert!(output.status.success(), "{words:?}: {output:?}");
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    /// Adds a commit with a tag of its name.
    fn commit(&self, name: &str, mark: &str) {
        std::fs::write(self.path().join("mark"), mark).unwrap();
        // So that no two commits have the same files.
        std::fs::write(self.path().join("name"), name).unwrap();
        self.git(&["add", "--all"]);
        self.git(&["commit", "--quiet", "-m", name]);
        self.git(&["tag", name]);
    }

    /// Adds commits `1` to `count`.
    fn line(&self, count: usize, mark: impl Fn(usize) -> &'static str) {
        for number in 1..=count {
            self.commit(&number.to_string(), mark(number));
        }
    }

    fn names(&self, ids: &[String]) -> Vec<String> {
        let mut names: Vec<String> = ids
            .iter()
            .map(|id| self.git(&["log", "-1", "--format=%s", id]))
            .collect();
        names.sort();
        names
    }

    /// Searches from `good` to `bad`, interrupted after `most` judged commits.
    fn search(&mut self, good: &str, bad: &str, options: &Options) -> Result<Found, Error> {
        let repository = Repository::open(self.path()).unwrap();
        let request = BisectRequest {
            repository: &repository,
            good: repository.commit(good).unwrap(),
            bad: repository.commit(bad).unwrap(),
            first_parent: options.first_parent,
            verify: options.verify,
            restart: options.restart,
            repeat: String::new(),
        };
        let cache = tempfile::tempdir().unwrap();
        let place = options.cache.unwrap_or(cache.path());
        let cache = Cache::open(place).unwrap();
        let key = Digest::of(b"these");
        let state = State::open(&cache, &key, request.restart)?;
        let ui = Ui::new(true);
        let judge = ScriptedJudge {
            repository: &repository,
            judged: Vec::new(),
            left: options.most,
            clean: options.clean.clone(),
            host_fails: options.host_fails,
        };
        let mut search = Search::new(&request, judge, state, &ui);
        search.announce(None)?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        let result = runtime.block_on(search.search());
        self.judged.append(&mut search.judge.judged);
        let (outcome, verified) = result?;
        Ok(Found {
            outcome,
            verified,
            steps: search.state.steps().to_vec(),
        })
    }
}

struct Options<'a> {
    first_parent: bool,
    verify: bool,
    restart: bool,
    cache: Option<&'a Path>,
    most: usize,
    /// The marks of clean builds, by subject, where they differ.
    clean: BTreeMap<&'static str, Mark>,
    /// The subject of a commit for which this machine fails.
    host_fails: Option<&'static str>,
}

impl Default for Options<'_> {
    fn default() -> Self {
        Options {
            first_parent: false,
            verify: true,
            restart: false,
            cache: None,
            most: usize::MAX,
            clean: BTreeMap::new(),
            host_fails: None,
        }
    }
}

#[derive(Debug)]
struct Found {
    outcome: Outcome,
    verified: Vec<BisectStep>,
    steps: Vec<BisectStep>,
}

struct ScriptedJudge<'a> {
    repository: &'a Repository,
    judged: Vec<(String, bool)>,
    left: usize,
    clean: BTreeMap<&'static str, Mark>,
    host_fails: Option<&'static str>,
}

impl Commits for ScriptedJudge<'_> {
    async fn judge(&mut self, commit: &Commit, clean: bool) -> Result<CommitResult, Error> {
        if self.left == 0 {
            return Err(Error::Interrupted);
        }
        self.left -= 1;
        self.judged.push((commit.id.clone(), clean));
        let text = self.repository.file(&commit.id, "mark").unwrap().unwrap();
        let mark = match text.as_str() {
            "good" => Mark::Good,
            "bad" => Mark::Bad,
            _ => Mark::Skip,
        };
        let other = self.clean.get(commit.subject.as_str()).filter(|_| clean);
        let host_fails = self.host_fails == Some(commit.subject.as_str());
        Ok(CommitResult {
            mark: if host_fails {
                Mark::Skip
            } else {
                *other.unwrap_or(&mark)
            },
            why: text,
            host: host_fails.then(|| "QEMU was killed".to_owned()),
            image: None,
            values: BTreeMap::new(),
            folders: Vec::new(),
            cached: 0,
            build_seconds: 1.0,
            guest_seconds: 1.0,
            notes: Vec::new(),
        })
    }
}

fn from(first: usize) -> impl Fn(usize) -> &'static str {
    move |number| if number < first { "good" } else { "bad" }
}

#[test]
fn each_commit_of_a_line_is_found_in_few_steps_and_verified() {
    let mut repo = TestRepository::new();
    let mut most = 0;
    for first in [1, 2, 17, 32] {
        repo.git(&["checkout", "--quiet", "--detach", "root"]);
        for number in 1..=32 {
            repo.commit(&format!("{first}.{number}"), from(first)(number));
        }
        let found = repo
            .search("root", &format!("{first}.32"), &Options::default())
            .unwrap();
        let Outcome::Found { commit } = &found.outcome else {
            panic!("{found:?}");
        };
        assert_eq!(
            repo.names(std::slice::from_ref(commit)),
            [format!("{first}.{first}")]
        );
        assert_eq!(found.verified.len(), 2);
        assert!(found.verified.iter().all(|step| step.clean));
        let searched = found
            .steps
            .iter()
            .filter(|step| step.role == CommitRole::Search);
        most = most.max(searched.count());
    }
    assert!(most <= 6, "{most}");
}

#[test]
fn skipped_commits_are_worked_around() {
    let mut repo = TestRepository::new();
    repo.line(40, |number| match number {
        18..=22 | 33 => "broken",
        number => from(30)(number),
    });
    let found = repo.search("root", "40", &Options::default()).unwrap();
    assert_eq!(found.outcome.exit_code(), 0, "{found:?}");
    let Outcome::Found { commit } = &found.outcome else {
        panic!("{found:?}");
    };
    assert_eq!(repo.names(std::slice::from_ref(commit)), ["30"]);
    let skipped = found
        .steps
        .iter()
        .filter(|step| step.result.mark == Mark::Skip);
    assert!((1..=2).contains(&skipped.count()), "{found:?}");
}

#[test]
fn the_answer_is_a_range_if_only_skipped_commits_are_left() {
    let mut repo = TestRepository::new();
    repo.line(16, |number| match number {
        7..=9 => "broken",
        number => from(10)(number),
    });
    let found = repo.search("root", "16", &Options::default()).unwrap();
    let Outcome::Range { commits } = &found.outcome else {
        panic!("{found:?}");
    };
    let mut expected = vec!["10", "7", "8", "9"];
    expected.sort_unstable();
    assert_eq!(repo.names(commits), expected);
    assert_eq!(repo.names(&commits[commits.len() - 1..]), ["10"]);
    assert_eq!(found.outcome.exit_code(), 3);
    assert!(found.verified.is_empty());
}

#[test]
fn first_parent_does_not_follow_merged_branches() {
    let mut repo = TestRepository::new();
    repo.line(3, |_| "good");
    repo.git(&["checkout", "--quiet", "-b", "topic", "1"]);
    for number in 1..=4 {
        repo.commit(&format!("topic-{number}"), from(3)(number));
    }
    repo.git(&["checkout", "--quiet", "main"]);
    repo.git(&["merge", "--quiet", "--no-commit", "-s", "ours", "topic"]);
    repo.commit("merge", "bad");
    repo.commit("last", "bad");
    for (first_parent, name) in [(false, "topic-3"), (true, "merge")] {
        let options = Options {
            first_parent,
            ..Options::default()
        };
        let found = repo.search("root", "last", &options).unwrap();
        let Outcome::Found { commit } = &found.outcome else {
            panic!("{found:?}");
        };
        assert_eq!(repo.names(std::slice::from_ref(commit)), [name]);
    }
}

#[test]
fn an_end_with_another_mark_than_stated_ends_the_search() {
    let mut repo = TestRepository::new();
    repo.line(9, |number| match number {
        4 => "broken",
        number => from(5)(number),
    });
    for (good, bad, role, mark, judged) in [
        ("6", "9", CommitRole::GoodEnd, Mark::Bad, 1),
        ("4", "9", CommitRole::GoodEnd, Mark::Skip, 1),
        ("1", "3", CommitRole::BadEnd, Mark::Good, 2),
        ("1", "4", CommitRole::BadEnd, Mark::Skip, 2),
    ] {
        repo.judged.clear();
        let found = repo.search(good, bad, &Options::default()).unwrap();
        assert_eq!(found.outcome.exit_code(), 3);
        let Outcome::End {
            role: found_role,
            mark: found_mark,
            ..
        } = found.outcome
        else {
            panic!("{found:?}");
        };
        assert_eq!((found_role, found_mark), (role, mark));
        assert_eq!(repo.judged.len(), judged);
    }
}

#[test]
fn a_commit_for_which_this_machine_fails_is_judged_again_when_the_search_resumes() {
    let mut repo = TestRepository::new();
    repo.line(16, from(10));
    let cache = tempfile::tempdir().unwrap();
    let options = |host_fails| Options {
        host_fails,
        cache: Some(cache.path()),
        ..Options::default()
    };
    let found = repo.search("root", "16", &options(Some("9"))).unwrap();
    let Outcome::Range { commits } = &found.outcome else {
        panic!("{found:?}");
    };
    assert_eq!(repo.names(commits), ["10", "9"]);
    let failed = found.steps.iter().find(|step| step.subject == "9");
    assert!(failed.unwrap().result.host.is_some(), "{found:?}");
    repo.judged.clear();
    let found = repo.search("root", "16", &options(None)).unwrap();
    let Outcome::Found { commit } = &found.outcome else {
        panic!("{found:?}");
    };
    assert_eq!(repo.names(std::slice::from_ref(commit)), ["10"]);
    // Nothing else is judged again, but for the two clean builds.
    let judged: Vec<String> = repo.judged.iter().map(|(id, _)| id.clone()).collect();
    assert_eq!(repo.names(&judged), ["10", "9", "9"]);
}

#[test]
fn an_interrupted_search_resumes_after_its_last_step() {
    let mut repo = TestRepository::new();
    repo.line(30, from(11));
    let whole = repo.search("root", "30", &Options::default()).unwrap();
    let steps = std::mem::take(&mut repo.judged);
    let cache = tempfile::tempdir().unwrap();
    let options = |most, restart| Options {
        most,
        restart,
        cache: Some(cache.path()),
        ..Options::default()
    };
    for _ in 0..steps.len() {
        let error = repo.search("root", "30", &options(1, false)).unwrap_err();
        assert!(matches!(error, Error::Interrupted), "{error:?}");
        if repo.judged.len() == steps.len() - 1 {
            break;
        }
    }
    let found = repo.search("root", "30", &options(1, false)).unwrap();
    assert_eq!(found.outcome, whole.outcome);
    // None twice, and in the same order.
    assert_eq!(repo.judged, steps);
    repo.judged.clear();
    repo.search("root", "30", &options(0, false)).unwrap();
    assert_eq!(repo.judged, []);
    repo.search("root", "30", &options(usize::MAX, true))
        .unwrap();
    assert_eq!(repo.judged, steps);
}

#[test]
fn two_processes_cannot_run_one_search() {
    let cache = tempfile::tempdir().unwrap();
    let cache = Cache::open(cache.path()).unwrap();
    let key = Digest::of(b"these");
    let held = State::open(&cache, &key, false).unwrap();
    let error = State::open(&cache, &key, false).unwrap_err();
    assert!(
        crate::error_chain::sentence(&error).contains("process"),
        "{error}"
    );
    drop(held);
    State::open(&cache, &key, false).unwrap();
}

#[test]
fn a_contradicting_clean_build_gives_no_answer() {
    let mut repo = TestRepository::new();
    repo.line(8, from(5));
    for (name, answer) in [("5", Mark::Good), ("4", Mark::Bad), ("5", Mark::Skip)] {
        let options = Options {
            clean: BTreeMap::from([(name, answer)]),
            ..Options::default()
        };
        let found = repo.search("root", "8", &options).unwrap();
        assert!(
            matches!(found.outcome, Outcome::Unverified { .. }),
            "{found:?}"
        );
        assert_eq!(found.outcome.exit_code(), 3);
    }
    let options = Options {
        verify: false,
        clean: BTreeMap::from([("5", Mark::Good)]),
        ..Options::default()
    };
    let found = repo.search("root", "8", &options).unwrap();
    assert_eq!(found.outcome.exit_code(), 0);
    assert!(found.steps.iter().all(|step| !step.clean));
}

#[test]
fn nothing_is_written_into_the_repository() {
    let mut repo = TestRepository::new();
    repo.line(12, from(7));
    let state = |repo: &TestRepository| {
        let mut files = Vec::new();
        let mut folders = vec![repo.path().to_owned()];
        while let Some(folder) = folders.pop() {
            for item in std::fs::read_dir(folder).unwrap() {
                let path = item.unwrap().path();
                let data = std::fs::symlink_metadata(&path).unwrap();
                if data.is_dir() {
                    folders.push(path.clone());
                }
                let bytes = data.is_file().then(|| std::fs::read(&path).unwrap());
                files.push((path, data.modified().unwrap(), bytes));
            }
        }
        files.sort();
        files
    };
    let before = state(&repo);
    repo.search("root", "12", &Options::default()).unwrap();
    assert!(state(&repo) == before);
}

#[test]
fn wrong_ends_are_refused_before_any_build() {
    let repo = TestRepository::new();
    repo.line(3, |_| "good");
    repo.git(&["checkout", "--quiet", "--orphan", "lonely"]);
    repo.commit("alone", "bad");
    repo.git(&["checkout", "--quiet", "main"]);
    let makefile = "VERSION = 3\nPATCHLEVEL = 2\nSUBLEVEL = 1\n";
    std::fs::write(repo.path().join("Makefile"), makefile).unwrap();
    repo.commit("old", "good");
    repo.commit("new", "bad");
    repo.git(&["checkout", "--quiet", "-b", "stable", "2"]);
    repo.commit("backport", "good");
    let refused = |good: &str, bad: &str| refusal(repo.path(), good, bad);
    let says = |good, bad, words: &[&str]| {
        let error = refused(good, bad).unwrap_err();
        let help = miette::Diagnostic::help(&error).map(|help| help.to_string());
        let text = format!("{error}; {}", help.unwrap_or_default());
        assert!(words.iter().all(|word| text.contains(word)), "{text}");
    };
    says("1", "1", &["the same commit"]);
    says("3", "1", &["must be the older one", "that fixed something"]);
    says("1", "alone", &["no common ancestor"]);
    says("old", "new", &["is Linux 3.2.1: kernels before 5.0"]);
    let base = repo.git(&["rev-parse", "2"]);
    says(
        "backport",
        "3",
        &["not an ancestor", "(\"2\")", &format!("--good {base}")],
    );
    refused("1", "3").unwrap();
}

fn refusal(folder: &Path, good: &str, bad: &str) -> Result<(), BisectError> {
    let repository = Repository::open(folder).unwrap();
    check(&BisectRequest {
        repository: &repository,
        good: repository.commit(good).unwrap(),
        bad: repository.commit(bad).unwrap(),
        first_parent: false,
        verify: true,
        restart: false,
        repeat: String::new(),
    })
}

#[test]
fn a_shallow_clone_that_lacks_commits_between_the_ends_is_refused() {
    let repo = TestRepository::new();
    repo.line(4, |_| "good");
    // Without 1, git takes 2 for a commit that only the merged branch has.
    repo.git(&["checkout", "--quiet", "-b", "topic", "2"]);
    repo.commit("topic-1", "good");
    repo.git(&["checkout", "--quiet", "main"]);
    repo.git(&["merge", "--quiet", "-s", "ours", "-m", "merge", "topic"]);
    repo.git(&["tag", "merge"]);
    repo.commit("last", "bad");
    let clone = tempfile::tempdir().unwrap();
    let url = format!("file://{}", repo.path().display());
    let folder = clone.path().display().to_string();
    repo.git(&["clone", "--quiet", "--depth=4", &url, &folder]);
    let error = refusal(clone.path(), "HEAD~2", "HEAD").unwrap_err();
    assert!(matches!(error, BisectError::Shallow { .. }), "{error}");
    refusal(clone.path(), "HEAD~1", "HEAD").unwrap();
}

#[test]
fn no_commit_is_chosen_twice() {
    let candidates: Vec<Candidate> = (0..9)
        .map(|number| Candidate {
            id: number.to_string(),
            distance: 9 - number,
        })
        .collect();
    let mut unknown = BTreeSet::new();
    loop {
        match choose(&candidates, "8", &unknown) {
            Next::Judge(id) => assert!(id != "8" && unknown.insert(id)),
            Next::OnlySkipped(rest) => {
                assert_eq!(rest.len(), 8);
                break;
            }
            Next::Found => panic!("eight are left"),
        }
    }
    assert_eq!(choose(&candidates[8..], "8", &BTreeSet::new()), Next::Found);
    assert_eq!((steps(1), steps(2), steps(33), steps(40)), (0, 1, 6, 6));
}
