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
use super::letter::{self, Letter, Opened};
use super::mime;
use crate::cache::{Cache, CacheError, Part, TempEntry};
use crate::tools::git;
use crate::tools::process::{Job, Told};
use crate::tools::toolchain::Toolbox;

/// How long git may take for one file or mail.
const DEADLINE: Duration = Duration::from_secs(120);

/// How many mails of one file are read; the longest threads have some hundred.
const MOST: usize = 5000;

/// Where mails are taken apart.
pub(crate) struct Mailroom<'a> {
    cache: &'a Cache,
    pub(super) path: OsString,
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
        self.git(&folder, split, None)?
            .map_err(|said| SeriesError::Mail {
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
            letters.push(self.mail(path, number, name, &folder)?);
        }
        Ok(letters)
    }

    /// One mail, which is the file `name`.
    fn mail(
        &self,
        path: &Path,
        number: Option<usize>,
        name: &Path,
        folder: &Path,
    ) -> Result<Letter, SeriesError> {
        let raw = read(name)?;
        let parts = mime::prepare(&raw);
        let raw = String::from_utf8_lossy(&raw);
        let mut header = letter::header(&raw, "subject").unwrap_or_default();
        let fault = |header: &str, why| SeriesError::Mail {
            mail: Letter::name(path, number, Some(header)),
            why,
        };
        if header.contains("=?") {
            // Decoded by itself: a subject in the body would take its place.
            write(name, format!("Subject: {header}\n\n").as_bytes())?;
            let decoded = self.subject(folder, name)?;
            header = decoded.map_err(|said| fault(&header, said))?;
        }
        if let Some(remark) = Letter::remark(path, number, &raw, &header) {
            return Ok(remark);
        }
        write(name, &parts.bytes)?;
        let subject = self.subject(folder, name)?;
        let subject = subject.map_err(|said| fault(&header, said))?;
        let message = read(&folder.join("message"))?;
        Letter::judge(
            path.to_owned(),
            number,
            Opened {
                raw: &raw,
                parts: &parts,
                subject: &subject,
                header: &header,
                message: &String::from_utf8_lossy(&message),
                diff: &read(&folder.join("diff"))?,
            },
        )
        .map_err(|why| fault(&header, why))
    }

    /// Takes a mail apart, into the files `message` and `diff`; its subject. The inner
    /// error is git's words.
    fn subject(&self, folder: &Path, mail: &Path) -> Result<Result<String, String>, SeriesError> {
        let mut info = git::command(&self.path, folder);
        info.args(["mailinfo", "-k", "--encoding=UTF-8", "--scissors"])
            .args(["message", "diff"]);
        let input = File::open(mail).map_err(|error| CacheError::io("read", mail, error))?;
        let said = self.git(folder, info, Some(input))?;
        Ok(said
            .map(|said| {
                let subject = said.lines().find_map(|line| line.strip_prefix("Subject: "));
                subject.unwrap_or_default().to_owned()
            })
            .map_err(|said| format!("git mailinfo: {said}")))
    }

    /// The folder to work in.
    pub(super) fn scratch(&mut self) -> Result<PathBuf, SeriesError> {
        if let Some(scratch) = &self.scratch {
            return Ok(scratch.path().to_owned());
        }
        Toolbox::new(self.path.clone(), "").check_patch()?;
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

fn read(path: &Path) -> Result<Vec<u8>, CacheError> {
    fs::read(path).map_err(|error| CacheError::io("read", path, error))
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), CacheError> {
    fs::write(path, bytes).map_err(|error| CacheError::io("write", path, error))
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
