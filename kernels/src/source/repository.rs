//! A user's git repository, asked and never written to: which commit a revision is, and
//! how commits hang together.
//!
//! Everything is asked of git, so that a worktree, a bare, a shallow or a partial clone
//! is as good as any other. Nothing that the repository's or the user's configuration
//! names is run, nothing is fetched. Fetcher a commit's files is the module `git`'s.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use crate::error_kind::ErrorKind;
use crate::spelling;
use crate::tools::process::{self, JobError, Said};

/// How long git may take for an answer about names and commits. The whole history of
/// Linux is listed in some ten seconds.
const DEADLINE: Duration = Duration::from_secs(300);

/// What git says of an object that is not there, as in a partial clone.
const MISSING: [&str; 7] = [
    "not a tree object",
    "Could not read",
    "promisor remote",
    "lazy fetching disabled",
    "missing blob",
    "missing tree",
    "unable to read",
];

/// A repository, found.
#[derive(Debug, Clone)]
pub struct Repository {
    /// As it was given, made absolute.
    given: PathBuf,
    /// The folder that all its worktrees share.
    common: PathBuf,
    objects: PathBuf,
    /// `sha1` or `sha256`.
    format: String,
    tools: OsString,
}

/// A commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Commit {
    /// Its whole id.
    pub id: String,
    /// The id of its files.
    pub tree: String,
    /// The first line of its message.
    pub subject: String,
}

impl Commit {
    /// The beginning of its id and its subject, as kernel developers cite commits.
    pub fn shown(&self) -> String {
        format!("{} (\"{}\")", abbreviated(&self.id), self.subject)
    }
}

/// Enough of an object's id to tell it from others.
pub fn abbreviated(id: &str) -> &str {
    id.get(..12).unwrap_or(id)
}

/// Why a repository gives no answer.
#[derive(Debug, thiserror::Error)]
pub enum RepositoryError {
    /// There is no repository.
    #[error("{path:?} is no git repository: {said}")]
    None {
        /// The folder.
        path: PathBuf,
        /// git's words.
        said: String,
    },
    /// A revision that names no commit, or more than one.
    #[error("{revision:?} is no commit of {path:?}: {said}{hint}")]
    Revision {
        /// The revision.
        revision: String,
        /// The repository.
        path: PathBuf,
        /// git's words.
        said: String,
        /// The nearest name, as a sentence.
        hint: String,
    },
    /// Objects that a partial clone left out.
    #[error(
        "the objects of {revision} are not here ({path:?} is a partial or damaged clone): `git -C \
         {} fetch --refetch --no-filter`, or `git -C {} log -p -1 {revision} >/dev/null` for this \
         commit alone, fetches them: {said}",
        path.display(), path.display()
    )]
    Absent {
        /// The commit.
        revision: String,
        /// The repository.
        path: PathBuf,
        /// git's words.
        said: String,
    },
    /// git refused.
    #[error("git cannot {what} in {path:?}: {said}")]
    Git {
        /// What was asked.
        what: String,
        /// The repository.
        path: PathBuf,
        /// Its words.
        said: String,
    },
    /// git gave no answer.
    #[error(transparent)]
    Job(#[from] JobError),
}

impl RepositoryError {
    /// Whose fault it is.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::None { .. } | Self::Revision { .. } | Self::Absent { .. } => ErrorKind::Input,
            Self::Git { .. } => ErrorKind::Environment,
            Self::Job(error) => error.kind(),
        }
    }
}

impl Repository {
    /// Finds the repository that a folder is, or belongs to.
    ///
    /// # Errors
    /// There is none, or no git.
    pub fn open(path: &Path) -> Result<Repository, RepositoryError> {
        Self::with_tools(path, &std::env::var_os("PATH").unwrap_or_default())
    }

    /// The same with another PATH.
    pub(crate) fn with_tools(path: &Path, tools: &OsStr) -> Result<Repository, RepositoryError> {
        let none = |said: &str| RepositoryError::None {
            path: path.to_owned(),
            said: said.to_owned(),
        };
        let given = path
            .canonicalize()
            .map_err(|error| none(&error.to_string()))?;
        if !given.is_dir() {
            return Err(none("it is no folder"));
        }
        let mut repository = Repository {
            given,
            common: PathBuf::new(),
            objects: PathBuf::new(),
            format: String::new(),
            tools: tools.to_owned(),
        };
        let ask = |what: &[&str]| {
            let mut words = vec!["rev-parse", "--path-format=absolute"];
            words.extend(what);
            match repository.run(&words, None, DEADLINE, &NEVER)? {
                Said { status, stdout, .. } if status.success() => Ok(line(&stdout)),
                Said { stderr, .. } => Err(none(&first_words(&stderr))),
            }
        };
        let common = PathBuf::from(ask(&["--git-common-dir"])?);
        let objects = PathBuf::from(ask(&["--git-path", "objects"])?);
        let format = ask(&["--show-object-format"])?;
        let real = |path: PathBuf| {
            path.canonicalize()
                .map_err(|error| none(&error.to_string()))
        };
        repository.common = real(common)?;
        repository.objects = real(objects)?;
        repository.format = format;
        Ok(repository)
    }

    /// The folder that was given, made absolute.
    pub fn path(&self) -> &Path {
        &self.given
    }

    /// The folder that all worktrees of the repository share.
    pub fn common(&self) -> &Path {
        &self.common
    }

    /// How it is called: its folder's name.
    pub fn name(&self) -> String {
        let own = match self.common.file_name() {
            Some(name) if name == ".git" => self.common.parent().unwrap_or(&self.common),
            _ => &self.common,
        };
        let name = crate::files::name(own);
        name.strip_suffix(".git").unwrap_or(&name).to_owned()
    }

    /// The one commit that a revision names.
    ///
    /// # Errors
    /// It names none, more than one, or one whose objects are not here.
    pub fn commit(&self, revision: &str) -> Result<Commit, RepositoryError> {
        let fault = |said: String| RepositoryError::Revision {
            revision: revision.to_owned(),
            path: self.given.clone(),
            said,
            hint: self.hint(revision),
        };
        if revision.is_empty() || revision.starts_with('-') || revision.contains(['\0', '\n']) {
            return Err(fault("it is no revision".to_owned()));
        }
        let peeled = format!("{revision}^{{commit}}");
        let said = self.run(&["rev-parse", "--verify", &peeled], None, DEADLINE, &NEVER)?;
        // Of a branch and a tag of one name git would take one, with a warning.
        if !said.status.success()
            || (said.stderr.contains("ambiguous") && self.names_several(revision)?)
        {
            return Err(fault(first_words(&said.stderr)));
        }
        let id = line(&said.stdout);
        let mut commits = self.commits(std::slice::from_ref(&id))?;
        commits
            .remove(&id)
            .ok_or_else(|| fault("git shows nothing of it".to_owned()))
    }

    /// Whether a revision begins with a name that several branches and tags have. git also
    /// warns of a name that is the beginning of an object's id, where it means the name.
    fn names_several(&self, revision: &str) -> Result<bool, RepositoryError> {
        let name = revision
            .split(['~', '^', '@', ':'])
            .next()
            .unwrap_or_default();
        let places = ["", "tags/", "heads/", "remotes/"].map(|kind| format!("refs/{kind}{name}"));
        let mut words = vec!["for-each-ref", "--format=%(refname)"];
        words.extend(places.iter().map(String::as_str));
        let listed = self.ask("list names", &words)?;
        // A name also matches as the folder of others.
        let same = listed
            .lines()
            .filter(|found| places.iter().any(|place| place == found));
        Ok(same.count() > 1)
    }

    /// What is known of commits, by their whole ids.
    ///
    /// # Errors
    /// One is not here.
    pub fn commits(&self, ids: &[String]) -> Result<BTreeMap<String, Commit>, RepositoryError> {
        let text: String = ids.iter().map(|id| format!("{id}\n")).collect();
        let words = [
            "rev-list",
            "--no-walk=unsorted",
            "--format=%T%x09%s",
            "--stdin",
        ];
        let said = self.ask_with("show commits", &words, Some(text.as_bytes()))?;
        let mut commits = BTreeMap::new();
        let mut lines = said.lines();
        while let (Some(head), Some(rest)) = (lines.next(), lines.next()) {
            let id = head.strip_prefix("commit ").unwrap_or(head).to_owned();
            let (tree, subject) = rest.split_once('\t').unwrap_or((rest, ""));
            let commit = Commit {
                id: id.clone(),
                tree: tree.to_owned(),
                subject: subject.to_owned(),
            };
            commits.insert(id, commit);
        }
        Ok(commits)
    }

    /// The text of a file in a commit; `None` if it has none of that name.
    ///
    /// # Errors
    /// The commit's objects are not here.
    pub fn file(&self, commit: &str, name: &str) -> Result<Option<String>, RepositoryError> {
        let listed = self.ask("list files", &["ls-tree", "-z", commit, "--", name])?;
        if listed.is_empty() {
            return Ok(None);
        }
        let spelled = format!("{commit}:{name}");
        match self.ask("read a file", &["cat-file", "blob", &spelled]) {
            // It is listed, so only its content can be what is missing.
            Err(RepositoryError::Git { path, said, .. }) => Err(RepositoryError::Absent {
                revision: commit.to_owned(),
                path,
                said,
            }),
            answer => answer.map(Some),
        }
    }

    /// Whether this is a shallow clone.
    pub fn is_shallow(&self) -> bool {
        let words = ["rev-parse", "--is-shallow-repository"];
        self.ask("tell its depth", &words)
            .is_ok_and(|said| said.trim() == "true")
    }

    /// A commit at the boundary of a shallow clone that only one of two commits is or has as an
    /// ancestor. If there is one, which commits lie between the two is not known: what is
    /// missing may connect them. `git fetch --unshallow` helps.
    ///
    /// # Errors
    /// git refuses.
    pub fn shallow_boundary_between(
        &self,
        one: &str,
        other: &str,
    ) -> Result<Option<String>, RepositoryError> {
        let words = [
            "rev-parse",
            "--path-format=absolute",
            "--git-path",
            "shallow",
        ];
        let file = self.ask("find its boundary", &words)?;
        let Ok(boundary) = std::fs::read_to_string(file.trim_end_matches('\n')) else {
            // A whole clone has no such file.
            return Ok(None);
        };
        let boundary: BTreeSet<&str> = boundary.lines().collect();
        let listed = self.ask("list commits", &["rev-list", &format!("{one}...{other}")])?;
        let mut ids = listed.lines();
        Ok(ids.find(|id| boundary.contains(id)).map(str::to_owned))
    }

    /// Whether a commit is the one that is checked out, and files there look edited
    /// since: as far as sizes and times tell.
    pub fn is_edited(&self, commit: &str) -> bool {
        let head = ["rev-parse", "--verify", "--quiet", "HEAD^{commit}"];
        let yes = |said: Result<String, _>, word: &str| said.is_ok_and(|said| said.trim() == word);
        yes(self.ask("find HEAD", &head), commit)
            && yes(
                self.ask(
                    "find the work tree",
                    &["rev-parse", "--is-inside-work-tree"],
                ),
                "true",
            )
            && self
                .ask("list edits", &["diff-index", "--name-only", "HEAD", "--"])
                .is_ok_and(|said| !said.is_empty())
    }

    /// Whether the folder is the top of a work tree in which nothing differs from the
    /// commit that is checked out, and nothing that git does not ignore is beside it.
    pub fn is_clean_at_top(&self) -> bool {
        let top = ["rev-parse", "--path-format=absolute", "--show-toplevel"];
        let at_top = self
            .ask("find the work tree", &top)
            .is_ok_and(|said| Path::new(said.trim_end_matches('\n')) == self.given);
        let status = [
            "status",
            "--porcelain",
            "--untracked-files=normal",
            "--ignore-submodules=all",
        ];
        at_top
            && self
                .ask("compare the work tree", &status)
                .is_ok_and(|said| said.is_empty())
    }

    /// Asks git something that prints text.
    ///
    /// # Errors
    /// git refuses; `what` is what it was to do, such as `list commits`.
    pub fn ask(&self, what: &str, words: &[&str]) -> Result<String, RepositoryError> {
        self.ask_with(what, words, None)
    }

    fn ask_with(
        &self,
        what: &str,
        words: &[&str],
        input: Option<&[u8]>,
    ) -> Result<String, RepositoryError> {
        let said = self.run(words, input, DEADLINE, &NEVER)?;
        if said.status.success() {
            return Ok(String::from_utf8_lossy(&said.stdout).into_owned());
        }
        Err(self.refused(
            what,
            words.last().copied().unwrap_or_default(),
            &said.stderr,
        ))
    }

    /// What git's refusal means.
    pub(crate) fn refused(&self, what: &str, revision: &str, stderr: &str) -> RepositoryError {
        let said = first_words(stderr);
        if MISSING.iter().any(|sign| stderr.contains(sign)) {
            return RepositoryError::Absent {
                revision: revision.to_owned(),
                path: self.given.clone(),
                said,
            };
        }
        RepositoryError::Git {
            what: what.to_owned(),
            path: self.given.clone(),
            said,
        }
    }

    /// The objects' folder and format, for a reader that knows nothing of the
    /// repository's configuration.
    pub(crate) fn store(&self) -> (&Path, &str) {
        (&self.objects, &self.format)
    }

    pub(crate) fn tools(&self) -> &OsStr {
        &self.tools
    }

    fn run(
        &self,
        words: &[&str],
        input: Option<&[u8]>,
        deadline: Duration,
        cancel: &AtomicBool,
    ) -> Result<Said, JobError> {
        let mut command = crate::tools::git::quiet(&self.tools);
        command.arg("-C").arg(&self.given).args(words);
        let what = format!("asking git about {:?}", self.given);
        let input = input.map(|bytes| filled(bytes, &what)).transpose()?;
        process::output(command, input, &what, deadline, cancel)
    }

    fn hint(&self, revision: &str) -> String {
        let words = ["for-each-ref", "--format=%(refname:short)"];
        let names = self.ask("list names", &words).unwrap_or_default();
        spelling::nearest(revision, names.lines())
            .map(|name| format!("; did you mean {name:?}?"))
            .unwrap_or_default()
    }
}

/// Never set: what is asked here takes moments, and has a deadline.
static NEVER: AtomicBool = AtomicBool::new(false);

/// A file without a name that holds `bytes`, to be read from its start.
pub(crate) fn filled(bytes: &[u8], what: &str) -> Result<File, JobError> {
    use std::io::{Seek as _, Write as _};
    let make = || {
        let mut file = tempfile::tempfile()?;
        file.write_all(bytes)?;
        file.rewind()?;
        Ok(file)
    };
    make().map_err(|source| JobError::Wait {
        what: what.to_owned(),
        source,
    })
}

/// The first lines of git's complaint, without its prefixes, as one.
fn first_words(stderr: &str) -> String {
    let lines = stderr.lines().map(|line| {
        let line = line.trim();
        ["fatal: ", "error: ", "hint: ", "warning: "]
            .iter()
            .find_map(|prefix| line.strip_prefix(prefix))
            .unwrap_or(line)
    });
    let lines: Vec<&str> = lines.filter(|line| !line.is_empty()).take(6).collect();
    match lines.is_empty() {
        true => "git says nothing".to_owned(),
        false => lines.join("; "),
    }
}

fn line(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    text.trim_end_matches('\n').to_owned()
}
