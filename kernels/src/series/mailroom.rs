//! The mailroom: takes files of mails apart, by `git mailsplit` and `git mailinfo`, in
//! a scratch folder of the cache.
//!
//! What a mail is worth is judged elsewhere (the module `letter`).

use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use super::SeriesError;
use super::letter::{Letter, Opened};
use crate::cache::{Cache, CacheError, Part, TempEntry};
use crate::git;
use crate::process::{Job, Told};
use crate::toolchain::Toolbox;

/// How long git may take for one file or mail.
const DEADLINE: Duration = Duration::from_secs(120);

/// How many mails of one file are read; the longest threads have some hundred.
const MOST: usize = 5000;

/// Where mails are taken apart.
pub(crate) struct Mailroom<'a> {
    cache: &'a Cache,
    path: OsString,
    scratch: Option<TempEntry>,
    /// What the user should know of what was read.
    pub(crate) notes: Vec<String>,
}

impl<'a> Mailroom<'a> {
    /// With git from `path`.
    pub(crate) fn new(cache: &'a Cache, path: OsString) -> Self {
        Self {
            cache,
            path,
            scratch: None,
            notes: Vec::new(),
        }
    }

    /// The mails of a file's bytes.
    pub(crate) fn open(&mut self, path: &Path, bytes: &[u8]) -> Result<Vec<Letter>, SeriesError> {
        let folder = self.scratch()?;
        let file = folder.join("file");
        let mails = folder.join("mails");
        let write = |path: &Path, bytes: &[u8]| {
            fs::write(path, bytes).map_err(|error| CacheError::io("write", path, error))
        };
        let plain = without_cr(bytes);
        if plain.is_some() {
            self.notes
                .push(format!("{path:?} has CRLF line ends: read without them"));
        }
        write(&file, plain.as_deref().unwrap_or(bytes))?;
        let _ = fs::remove_dir_all(&mails);
        fs::create_dir_all(&mails).map_err(|error| CacheError::io("make", &mails, error))?;
        let mut split = git::command(&self.path, &folder);
        // A CR that is left is a part of the diff.
        split.args(["mailsplit", "-b", "--keep-cr", "-d8"]);
        if bytes.starts_with(b"From mboxrd@z ") {
            // Archives put a `>` before each `From ` of a body.
            split.arg("--mboxrd");
        }
        split.arg("-omails").arg("file");
        let git = |command, input| self.git(&folder, command, input);
        git(split, None)?.map_err(|said| SeriesError::Mail {
            mail: format!("{path:?}"),
            why: format!("git mailsplit: {said}"),
        })?;
        let mut names: Vec<PathBuf> = fs::read_dir(&mails)
            .and_then(|items| items.map(|item| Ok(item?.path())).collect())
            .map_err(|error| CacheError::io("list", &mails, error))?;
        names.sort();
        if names.len() > MOST {
            return Err(SeriesError::Mail {
                mail: format!("{path:?}"),
                why: format!("it has more than {MOST} mails: give the series alone"),
            });
        }
        let several = names.len() > 1;
        let mut letters = Vec::new();
        for (index, name) in names.iter().enumerate() {
            let number = several.then_some(index + 1);
            let read =
                |path: &Path| fs::read(path).map_err(|error| CacheError::io("read", path, error));
            let input = File::open(name).map_err(|error| CacheError::io("read", name, error))?;
            let mut info = git::command(&self.path, &folder);
            info.args(["mailinfo", "-k", "--encoding=UTF-8", "--scissors"])
                .args(["message", "diff"]);
            let raw = read(name)?;
            let raw = String::from_utf8_lossy(&raw);
            let said = git(info, Some(input))?.map_err(|said| SeriesError::Mail {
                mail: Letter::name(
                    path,
                    number,
                    super::letter::header(&raw, "subject").as_deref(),
                ),
                why: format!("git mailinfo: {said}"),
            })?;
            let subject = said
                .lines()
                .find_map(|line| line.strip_prefix("Subject: "))
                .unwrap_or_default();
            let message = read(&folder.join("message"))?;
            let letter = Letter::judge(
                path.to_owned(),
                number,
                Opened {
                    raw: &raw,
                    subject,
                    message: &String::from_utf8_lossy(&message),
                    diff: &read(&folder.join("diff"))?,
                },
            )
            .map_err(|why| SeriesError::Mail {
                mail: Letter::name(path, number, Some(subject)),
                why,
            })?;
            letters.push(letter);
        }
        Ok(letters)
    }

    fn scratch(&mut self) -> Result<PathBuf, SeriesError> {
        if let Some(scratch) = &self.scratch {
            return Ok(scratch.path().to_owned());
        }
        Toolbox {
            path: self.path.clone(),
            compiler: String::new(),
        }
        .check_patch()?;
        let scratch = self.cache.temporary(Part::Tools)?;
        let path = scratch.path().to_owned();
        self.scratch = Some(scratch);
        Ok(path)
    }

    /// Runs git. The outer error is one of ours, the inner one git's words.
    fn git(
        &self,
        folder: &Path,
        command: Command,
        input: Option<File>,
    ) -> Result<Result<String, String>, SeriesError> {
        let mut said = String::new();
        let job = Job {
            command,
            what: "taking mails apart".to_owned(),
            log: &folder.join("log"),
            lock: None,
            deadline: DEADLINE,
            cancel: &AtomicBool::new(false),
        };
        let ended = job.run_on(input, &mut |told| {
            if let Told::Line(line) = told {
                said.push_str(line);
                said.push('\n');
            }
        })?;
        Ok(if ended.status.success() {
            Ok(said)
        } else {
            Err(said.trim().replace('\n', "; "))
        })
    }
}

/// The text with LF line ends, if each of its lines ends with CRLF: then they come
/// from how it was sent or saved, and are no part of the diff.
fn without_cr(bytes: &[u8]) -> Option<Vec<u8>> {
    let lines = bytes.split_inclusive(|byte| *byte == b'\n');
    let all = lines
        .clone()
        .filter(|line| line.ends_with(b"\n"))
        .all(|line| line.ends_with(b"\r\n"));
    (all && bytes.contains(&b'\r')).then(|| {
        lines
            .flat_map(|line| match line.strip_suffix(b"\r\n") {
                Some(line) => [line, b"\n"],
                None => [line, b""],
            })
            .flatten()
            .copied()
            .collect()
    })
}
