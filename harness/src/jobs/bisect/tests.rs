use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use numalab_kernels::Cache;

use super::answer::Answer;
use super::graph::{Next, choose, steps};
use super::report::Outcome;
use super::*;

/// A repository whose commits say themselves what they are: a file `answer` has it.
struct Bench {
    folder: tempfile::TempDir,
    judged: Vec<(String, bool)>,
}

impl Bench {
    fn new() -> Bench {
        let bench = Bench {
            folder: tempfile::tempdir().unwrap(),
            judged: Vec::new(),
        };
        bench.git(&["init", "--quiet", "--initial-branch=main"]);
        bench.commit("root", "good");
        bench
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
    fn commit(&self, name: &str, answer: &str) {
        std::fs::write(self.path().join("answer"), answer).unwrap();
        // What makes each commit's files its own.
        std::fs::write(self.path().join("name"), name).unwrap();
        self.git(&["add", "--all"]);
        self.git(&["commit", "--quiet", "-m", name]);
        self.git(&["tag", name]);
    }

    /// Commits `1` to `count`, each with what `answer` says of it.
    fn line(&self, count: usize, answer: impl Fn(usize) -> &'static str) {
        for number in 1..=count {
            self.commit(&number.to_string(), answer(number));
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

    /// Searches from `good` to `bad`; interrupted before the judging after `most`.
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
        let told = Told {
            repository: &repository,
            judged: Vec::new(),
            left: options.most,
            clean: options.clean.clone(),
        };
        let mut search = Search::new(&request, told, state, &ui);
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
    /// What clean builds of commits are, by subject, where that is another thing.
    clean: BTreeMap<&'static str, Answer>,
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
        }
    }
}

#[derive(Debug)]
struct Found {
    outcome: Outcome,
    verified: Vec<Step>,
    steps: Vec<Step>,
}

struct Told<'a> {
    repository: &'a Repository,
    judged: Vec<(String, bool)>,
    left: usize,
    clean: BTreeMap<&'static str, Answer>,
}

impl Commits for Told<'_> {
    async fn judge(&mut self, commit: &Commit, clean: bool) -> Result<Judged, Error> {
        if self.left == 0 {
            return Err(Error::Interrupted);
        }
        self.left -= 1;
        self.judged.push((commit.id.clone(), clean));
        let text = self.repository.file(&commit.id, "answer").unwrap().unwrap();
        let said = match text.as_str() {
            "good" => Answer::Good,
            "bad" => Answer::Bad,
            _ => Answer::CannotJudge,
        };
        let other = self.clean.get(commit.subject.as_str()).filter(|_| clean);
        Ok(Judged {
            answer: *other.unwrap_or(&said),
            why: text,
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
    let mut bench = Bench::new();
    let mut most = 0;
    for first in [1, 2, 17, 32] {
        bench.git(&["checkout", "--quiet", "--detach", "root"]);
        for number in 1..=32 {
            bench.commit(&format!("{first}.{number}"), from(first)(number));
        }
        let found = bench
            .search("root", &format!("{first}.32"), &Options::default())
            .unwrap();
        let Outcome::Found { commit } = &found.outcome else {
            panic!("{found:?}");
        };
        assert_eq!(
            bench.names(std::slice::from_ref(commit)),
            [format!("{first}.{first}")]
        );
        assert_eq!(found.verified.len(), 2);
        assert!(found.verified.iter().all(|step| step.clean));
        let searched = found.steps.iter().filter(|step| step.role == Role::Search);
        most = most.max(searched.count());
    }
    assert!(most <= 6, "{most}");
}

#[test]
fn what_cannot_be_judged_is_gone_around() {
    let mut bench = Bench::new();
    bench.line(40, |number| match number {
        18..=22 | 33 => "broken",
        number => from(30)(number),
    });
    let found = bench.search("root", "40", &Options::default()).unwrap();
    assert_eq!(found.outcome.exit_code(), 0, "{found:?}");
    let Outcome::Found { commit } = &found.outcome else {
        panic!("{found:?}");
    };
    assert_eq!(bench.names(std::slice::from_ref(commit)), ["30"]);
    let skipped = found
        .steps
        .iter()
        .filter(|step| step.judged.answer == Answer::CannotJudge);
    assert!((1..=2).contains(&skipped.count()), "{found:?}");
}

#[test]
fn the_answer_is_a_range_if_what_is_left_cannot_be_judged() {
    let mut bench = Bench::new();
    bench.line(16, |number| match number {
        7..=9 => "broken",
        number => from(10)(number),
    });
    let found = bench.search("root", "16", &Options::default()).unwrap();
    let Outcome::Range { commits } = &found.outcome else {
        panic!("{found:?}");
    };
    let mut expected = vec!["10", "7", "8", "9"];
    expected.sort_unstable();
    assert_eq!(bench.names(commits), expected);
    assert_eq!(bench.names(&commits[commits.len() - 1..]), ["10"]);
    assert_eq!(found.outcome.exit_code(), 3);
    assert!(found.verified.is_empty());
}

#[test]
fn merges_are_entered_or_passed_over_as_is_wished() {
    let mut bench = Bench::new();
    bench.line(3, |_| "good");
    bench.git(&["checkout", "--quiet", "-b", "topic", "1"]);
    for number in 1..=4 {
        bench.commit(&format!("topic-{number}"), from(3)(number));
    }
    bench.git(&["checkout", "--quiet", "main"]);
    bench.git(&["merge", "--quiet", "--no-commit", "-s", "ours", "topic"]);
    bench.commit("merge", "bad");
    bench.commit("last", "bad");
    for (first_parent, name) in [(false, "topic-3"), (true, "merge")] {
        let options = Options {
            first_parent,
            ..Options::default()
        };
        let found = bench.search("root", "last", &options).unwrap();
        let Outcome::Found { commit } = &found.outcome else {
            panic!("{found:?}");
        };
        assert_eq!(bench.names(std::slice::from_ref(commit)), [name]);
    }
}

#[test]
fn an_end_that_is_not_what_was_said_ends_it() {
    let mut bench = Bench::new();
    bench.line(9, |number| match number {
        4 => "broken",
        number => from(5)(number),
    });
    for (good, bad, role, answer, judged) in [
        ("6", "9", Role::GoodEnd, Answer::Bad, 1),
        ("4", "9", Role::GoodEnd, Answer::CannotJudge, 1),
        ("1", "3", Role::BadEnd, Answer::Good, 2),
        ("1", "4", Role::BadEnd, Answer::CannotJudge, 2),
    ] {
        bench.judged.clear();
        let found = bench.search(good, bad, &Options::default()).unwrap();
        assert_eq!(found.outcome.exit_code(), 3);
        let Outcome::End {
            role: seen,
            answer: said,
            ..
        } = found.outcome
        else {
            panic!("{found:?}");
        };
        assert_eq!((seen, said), (role, answer));
        assert_eq!(bench.judged.len(), judged);
    }
}

#[test]
fn a_good_end_on_another_branch_is_held_against_the_merge_base() {
    let mut bench = Bench::new();
    bench.line(4, |number| from(3)(number));
    bench.git(&["checkout", "--quiet", "--detach", "1"]);
    bench.commit("side", "good");
    bench.git(&["checkout", "--quiet", "--detach", "3"]);
    bench.commit("mended", "good");
    let found = bench.search("side", "4", &Options::default()).unwrap();
    let Outcome::Found { commit } = &found.outcome else {
        panic!("{found:?}");
    };
    assert_eq!(bench.names(std::slice::from_ref(commit)), ["3"]);
    let roles: Vec<Role> = found.steps.iter().map(|step| step.role).collect();
    assert_eq!(roles[..3], [Role::GoodEnd, Role::BadEnd, Role::MergeBase]);
    // Mended on the way to the good end: the merge base is bad.
    let found = bench.search("mended", "4", &Options::default()).unwrap();
    let Outcome::End { role, answer, .. } = found.outcome else {
        panic!("{found:?}");
    };
    assert_eq!((role, answer), (Role::MergeBase, Answer::Bad));
}

#[test]
fn an_interrupted_search_goes_on_after_its_last_step() {
    let mut bench = Bench::new();
    bench.line(30, from(11));
    let whole = bench.search("root", "30", &Options::default()).unwrap();
    let steps = std::mem::take(&mut bench.judged);
    let cache = tempfile::tempdir().unwrap();
    let options = |most, restart| Options {
        most,
        restart,
        cache: Some(cache.path()),
        ..Options::default()
    };
    for _ in 0..steps.len() {
        let error = bench.search("root", "30", &options(1, false)).unwrap_err();
        assert!(matches!(error, Error::Interrupted), "{error:?}");
        if bench.judged.len() == steps.len() - 1 {
            break;
        }
    }
    let found = bench.search("root", "30", &options(1, false)).unwrap();
    assert_eq!(found.outcome, whole.outcome);
    // None twice, and in the same order.
    assert_eq!(bench.judged, steps);
    bench.judged.clear();
    bench.search("root", "30", &options(0, false)).unwrap();
    assert_eq!(bench.judged, []);
    bench
        .search("root", "30", &options(usize::MAX, true))
        .unwrap();
    assert_eq!(bench.judged, steps);
}

#[test]
fn one_search_is_not_done_by_two_processes() {
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
fn a_clean_build_that_says_otherwise_blames_nothing() {
    let mut bench = Bench::new();
    bench.line(8, from(5));
    for (name, answer) in [
        ("5", Answer::Good),
        ("4", Answer::Bad),
        ("5", Answer::CannotJudge),
    ] {
        let options = Options {
            clean: BTreeMap::from([(name, answer)]),
            ..Options::default()
        };
        let found = bench.search("root", "8", &options).unwrap();
        assert!(
            matches!(found.outcome, Outcome::Unverified { .. }),
            "{found:?}"
        );
        assert_eq!(found.outcome.exit_code(), 3);
    }
    let options = Options {
        verify: false,
        clean: BTreeMap::from([("5", Answer::Good)]),
        ..Options::default()
    };
    let found = bench.search("root", "8", &options).unwrap();
    assert_eq!(found.outcome.exit_code(), 0);
    assert!(found.steps.iter().all(|step| !step.clean));
}

#[test]
fn nothing_is_written_into_the_repository() {
    let mut bench = Bench::new();
    bench.line(12, from(7));
    let state = |bench: &Bench| {
        let mut files = Vec::new();
        let mut folders = vec![bench.path().to_owned()];
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
    let before = state(&bench);
    bench.search("root", "12", &Options::default()).unwrap();
    assert!(state(&bench) == before);
}

#[test]
fn ends_that_are_no_ends_are_refused_before_anything_is_built() {
    let bench = Bench::new();
    bench.line(3, |_| "good");
    bench.git(&["checkout", "--quiet", "--orphan", "lonely"]);
    bench.commit("alone", "bad");
    bench.git(&["checkout", "--quiet", "main"]);
    let makefile = "VERSION = 3\nPATCHLEVEL = 2\nSUBLEVEL = 1\n";
    std::fs::write(bench.path().join("Makefile"), makefile).unwrap();
    bench.commit("old", "good");
    bench.commit("new", "bad");
    let repository = Repository::open(bench.path()).unwrap();
    let refused = |good: &str, bad: &str| {
        let request = BisectRequest {
            repository: &repository,
            good: repository.commit(good).unwrap(),
            bad: repository.commit(bad).unwrap(),
            first_parent: false,
            verify: true,
            restart: false,
            repeat: String::new(),
        };
        check(&request).map_err(|error| error.to_string())
    };
    let says = |good, bad, words: &str| {
        let said = refused(good, bad).unwrap_err();
        assert!(said.contains(words), "{said}");
    };
    says("1", "1", "the same commit");
    says("3", "1", "must be older");
    says("1", "alone", "no common ancestor");
    says("old", "new", "is Linux 3.2.1: kernels before 5.0");
    refused("1", "3").unwrap();
}

#[test]
fn choosing_never_gives_what_was_judged() {
    let candidates: Vec<graph::Candidate> = (0..9)
        .map(|number| graph::Candidate {
            id: number.to_string(),
            distance: 9 - number,
        })
        .collect();
    let mut unknown = BTreeSet::new();
    loop {
        match choose(&candidates, "8", &unknown) {
            Next::Judge(id) => assert!(id != "8" && unknown.insert(id)),
            Next::Among(rest) => {
                assert_eq!(rest.len(), 8);
                break;
            }
            Next::Found => panic!("eight are left"),
        }
    }
    assert_eq!(choose(&candidates[8..], "8", &BTreeSet::new()), Next::Found);
    assert_eq!((steps(1), steps(2), steps(33), steps(40)), (0, 1, 6, 6));
}
