//! Working out what patches make of the files that they touch.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use super::diff::{self, FileDiff};
use super::names::{safe, unsafe_name};
use super::{Mismatch, PatchError, conflict};
use crate::source::tree::{self, Content, SourceTree};
use crate::spec::{Direction, Patch};
use crate::tools::git;
use crate::tools::process::{Job, Told};

/// What a list of patches makes.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    /// The touched files, by their path in the tree.
    pub(crate) files: BTreeMap<String, Content>,
    /// What the user should know: CRLF ends, shifted hunks, a cover letter.
    pub(crate) notes: Vec<String>,
}

/// How long `git apply` may take for one patch.
const DEADLINE: Duration = Duration::from_secs(120);

/// Works out what `patches`, one after the other, make of the pristine `tree`.
///
/// `scratch` is an empty folder to work in, `tools` the value of PATH.
pub(crate) fn work_out(
    tree: &SourceTree,
    patches: &[Patch],
    scratch: &Path,
    tools: &OsStr,
    cancel: &AtomicBool,
) -> Result<Outcome, PatchError> {
    let mut outcome = Outcome::default();
    let area = Area {
        tree,
        files: scratch.join("files"),
        patch: scratch.join("patch"),
        log: scratch.join("log"),
        tools,
        cancel,
    };
    fs::create_dir_all(&area.files).map_err(|error| PatchError::io("make", &area.files, error))?;
    for patch in patches {
        area.apply(patch, &mut outcome)?;
    }
    Ok(outcome)
}

/// Whether files are changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Trial {
    /// They are.
    No,
    /// It is only tried.
    Exact,
    /// It is only tried, without regard to white space.
    AnyWhiteSpace,
}

/// A file's path in the tree before and after a change.
type Names = (Option<String>, Option<String>);

struct Area<'a> {
    tree: &'a SourceTree,
    files: PathBuf,
    patch: PathBuf,
    log: PathBuf,
    tools: &'a OsStr,
    cancel: &'a AtomicBool,
}

impl Area<'_> {
    fn apply(&self, patch: &Patch, outcome: &mut Outcome) -> Result<(), PatchError> {
        let changes = diff::read(patch)?;
        if changes.is_empty() {
            return match no_diff(&patch.bytes) {
                Some(why) => Err(PatchError::NoDiff {
                    patch: patch.label(),
                    why,
                }),
                None => {
                    let name = patch.name();
                    outcome
                        .notes
                        .push(format!("{name} is a cover letter: passed over"));
                    Ok(())
                }
            };
        }
        let strip = self.strip(patch, &changes)?;
        let mut touched = Vec::new();
        for change in &changes {
            let names = self.bring(patch, change, strip, outcome)?;
            self.need(patch, &names, &touched, outcome)?;
            touched.push(names);
        }
        need_context(patch, &changes, &touched, outcome)?;
        let bytes = plain_headers(&patch.bytes, &changes);
        let revert = patch.direction == Direction::Revert;
        let mut output = self.git(&bytes, strip, revert, Trial::No)?;
        if output.is_err()
            && let Some(plain) = without_crlf(&bytes)
        {
            output = self.git(&plain, strip, revert, Trial::No)?;
            if output.is_ok() {
                outcome.notes.push(format!(
                    "{} has CRLF line ends: applied without them",
                    patch.name()
                ));
            }
        }
        match output {
            Ok(said) => outcome.notes.extend(
                said.lines()
                    .filter(|line| line.starts_with("Hunk #") && line.contains("offset"))
                    .map(|line| {
                        let (name, line) = (patch.name(), line.trim_end_matches('.'));
                        format!("{name}: {line}; look whether that is the place that is meant")
                    }),
            ),
            Err(said) => {
                let why = self.mismatch(&bytes, revert, strip)?;
                return Err(conflict::conflict(patch, &changes, &said, why));
            }
        }
        let mut after = BTreeMap::new();
        for (old, new) in &touched {
            let mut changed = false;
            for name in [old, new].into_iter().flatten() {
                let content = tree::read(&self.files.join(name))?;
                changed |= outcome.files.get(name) != Some(&content);
                after.insert(name.clone(), content);
            }
            if !changed {
                // Git passes over files that it thinks are none of its business.
                let name = new.as_ref().or(old.as_ref()).map_or("", |name| name);
                return Err(PatchError::Git {
                    patch: patch.label(),
                    why: format!("it succeeded and left {name} as it was"),
                });
            }
        }
        outcome.files.extend(after);
        Ok(())
    }

    /// Why a patch does not fit the files as they are.
    fn mismatch(&self, patch: &[u8], revert: bool, strip: usize) -> Result<Mismatch, PatchError> {
        let plain = without_crlf(patch);
        let fits = |revert, trial| {
            for text in [Some(patch), plain.as_deref()].into_iter().flatten() {
                if self.git(text, strip, revert, trial)?.is_ok() {
                    return Ok::<_, PatchError>(true);
                }
            }
            Ok(false)
        };
        Ok(if fits(!revert, Trial::Exact)? {
            match revert {
                false => Mismatch::AlreadyApplied,
                true => Mismatch::NotApplied,
            }
        } else if fits(revert, Trial::AnyWhiteSpace)? {
            Mismatch::WhiteSpace
        } else {
            Mismatch::Unknown
        })
    }

    /// How many leading parts the patch's names have too many: 1, or none if only
    /// without stripping its files exist (`diff.noprefix`).
    fn strip(&self, patch: &Patch, changes: &[FileDiff]) -> Result<usize, PatchError> {
        let exists = |strip: usize| {
            changes
                .iter()
                .filter(|change| !change.bare)
                .filter_map(|change| change.old.as_deref().or(change.new.as_deref()))
                .filter_map(|name| safe(name, strip).ok())
                .any(|name| self.tree.src().join(name).is_file())
        };
        let strip = usize::from(exists(1) || !exists(0));
        for change in changes {
            let strip = if change.bare { 0 } else { strip };
            for name in [&change.old, &change.new].into_iter().flatten() {
                safe(name, strip).map_err(|why| unsafe_name(patch, change, name, why))?;
            }
        }
        Ok(strip)
    }

    /// Puts what a change starts from into the scratch folder.
    fn bring(
        &self,
        patch: &Patch,
        change: &FileDiff,
        strip: usize,
        outcome: &mut Outcome,
    ) -> Result<Names, PatchError> {
        let strip = if change.bare { 0 } else { strip };
        let within =
            |name: &Option<String>| name.as_deref().and_then(|name| safe(name, strip).ok());
        let (old, new) = (within(&change.old), within(&change.new));
        for name in [&old, &new].into_iter().flatten() {
            if outcome.files.contains_key(name) {
                continue;
            }
            if self.tree.passes_link(name) {
                return Err(unsafe_name(
                    patch,
                    change,
                    name,
                    "it lies behind a symbolic link",
                ));
            }
            let content = self.tree.pristine(name)?;
            tree::write(&self.files.join(name), content.as_ref())?;
            outcome.files.insert(name.clone(), content);
        }
        Ok((old, new))
    }

    /// Refuses a change of a file that neither the source has nor an earlier part of
    /// the patch makes.
    fn need(
        &self,
        patch: &Patch,
        names: &Names,
        earlier: &[Names],
        outcome: &Outcome,
    ) -> Result<(), PatchError> {
        let pick = |names: &Names, before: bool| {
            let (old, new) = names;
            let before = before == (patch.direction == Direction::Apply);
            if before { old.clone() } else { new.clone() }
        };
        match pick(names, true) {
            Some(name)
                if outcome.files.get(&name).is_none_or(Option::is_none)
                    && !earlier
                        .iter()
                        .any(|names| pick(names, false).as_ref() == Some(&name)) =>
            {
                Err(PatchError::Missing {
                    patch: patch.label(),
                    file: name,
                    base: patch.base_commit.clone(),
                })
            }
            _ => Ok(()),
        }
    }

    /// Runs `git apply`. The outer error is one of ours, the inner one git's words.
    fn git(
        &self,
        patch: &[u8],
        strip: usize,
        reverse: bool,
        trial: Trial,
    ) -> Result<Result<String, String>, PatchError> {
        fs::write(&self.patch, patch)
            .map_err(|error| PatchError::io("write", &self.patch, error))?;
        let mut command = git::command(self.tools, &self.files);
        command
            .args(["apply", "--verbose", "--whitespace=nowarn"])
            .arg(format!("-p{strip}"));
        if reverse {
            command.arg("--reverse");
        }
        match trial {
            Trial::No => {}
            Trial::Exact => {
                command.arg("--check");
            }
            Trial::AnyWhiteSpace => {
                command.args(["--check", "--ignore-whitespace"]);
            }
        }
        command.arg(&self.patch);
        let mut said = String::new();
        let ended = Job {
            command,
            what: "applying a patch".to_owned(),
            log: &self.log,
            lock: None,
            deadline: DEADLINE,
            cancel: self.cancel,
        }
        .run(&mut |told| {
            if let Told::Line(line) = told {
                said.push_str(line);
                said.push('\n');
            }
        })?;
        Ok(if ended.status.success() {
            Ok(said)
        } else {
            Err(said)
        })
    }
}

/// Refuses hunks without lines of context, which git would put anywhere, unless they replace
/// a whole file.
fn need_context(
    patch: &Patch,
    changes: &[FileDiff],
    touched: &[Names],
    outcome: &Outcome,
) -> Result<(), PatchError> {
    for (change, (old, new)) in changes.iter().zip(touched) {
        let revert = patch.direction == Direction::Revert;
        let name = if revert { new } else { old };
        let content = name
            .as_ref()
            .and_then(|name| outcome.files.get(name)?.as_ref());
        let text = content.map(|file| String::from_utf8_lossy(&file.bytes));
        let lines = text.map_or(0, |text| text.lines().count() as u64);
        for (hunk, number) in change.hunks.iter().zip(1..) {
            let (_, size) = if revert { hunk.new } else { hunk.old };
            if !hunk.context && size != lines {
                return Err(PatchError::NoContext {
                    patch: patch.label(),
                    file: name.clone().unwrap_or_default(),
                    hunk: format!("hunk {number} ({})", hunk.header),
                });
            }
        }
    }
    Ok(())
}

/// The patch without the times of `diff -N`, by which git would tell that files do not exist.
fn plain_headers<'a>(bytes: &'a [u8], changes: &[FileDiff]) -> Cow<'a, [u8]> {
    let headers: Vec<_> = changes.iter().filter_map(FileDiff::plain_header).collect();
    if headers.is_empty() {
        return Cow::Borrowed(bytes);
    }
    let mut lines: Vec<Cow<'_, [u8]>> = bytes
        .split_inclusive(|byte| *byte == b'\n')
        .map(Cow::Borrowed)
        .collect();
    for (first, header) in headers {
        for (line, text) in lines.iter_mut().skip(first - 1).zip(header) {
            *line = Cow::Owned(format!("{text}\n").into_bytes());
        }
    }
    Cow::Owned(lines.concat())
}

/// Why a patch file without a diff is an error; `None` for a series' cover letter.
fn no_diff(bytes: &[u8]) -> Option<&'static str> {
    let text = String::from_utf8_lossy(bytes);
    let header = |name: &str| {
        text.lines()
            .find(|line| {
                line.get(..name.len())
                    .is_some_and(|start| start.eq_ignore_ascii_case(name))
            })
            .unwrap_or_default()
            .to_ascii_lowercase()
    };
    let encoding = header("content-transfer-encoding:");
    if encoding.contains("base64") || encoding.contains("quoted-printable") {
        return Some("it is an encoded mail; save it with `b4 am` or `git format-patch`");
    }
    let subject = header("subject:");
    let cover = subject
        .split(|letter: char| !letter.is_ascii_digit() && letter != '/')
        .filter_map(|word| word.split_once('/'))
        .any(|(part, whole)| part.parse() == Ok(0_u32) && whole.parse::<u32>().is_ok());
    if cover {
        return None;
    }
    if text.trim().is_empty() {
        return Some("the file is empty");
    }
    Some("neither `diff --git` nor `---` and `+++` lines with hunks are in it")
}

/// The text with LF line ends, if it has any CRLF.
fn without_crlf(text: &[u8]) -> Option<Vec<u8>> {
    let mut plain = Vec::with_capacity(text.len());
    for (index, byte) in text.iter().enumerate() {
        if *byte != b'\r' || text.get(index + 1) != Some(&b'\n') {
            plain.push(*byte);
        }
    }
    (plain.len() < text.len()).then_some(plain)
}
