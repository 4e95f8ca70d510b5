//! What a word of the command line means: a file, a folder.

use std::fs;
use std::path::{Path, PathBuf};

use super::SeriesError;
use super::letter::{Content, Letter, lost_line_breaks};
use super::mailroom::Mailroom;
use crate::patch::PatchError;
use crate::patch::text;
use crate::wanted::{Direction, Patch};

/// The largest file that is read, in bytes: ten times the largest series that was
/// ever sent to a kernel list.
const LARGEST: u64 = 64 * 1024 * 1024;

/// The letters that a word means, and a short name of it.
pub(crate) fn letters(
    word: &str,
    cwd: &Path,
    mailroom: &mut Mailroom<'_>,
) -> Result<(String, Vec<Letter>), SeriesError> {
    let path = cwd.join(word);
    if !word.is_empty() && path.is_dir() {
        return folder(&path, mailroom);
    }
    if !word.is_empty() && path.exists() {
        let letters = file(&path, mailroom)?;
        return Ok((stem(&path), letters));
    }
    Err(SeriesError::Nothing {
        word: word.to_owned(),
        cwd: cwd.to_owned(),
        hint: String::new(),
    })
}

fn stem(path: &Path) -> String {
    path.file_stem()
        .unwrap_or(path.as_os_str())
        .to_string_lossy()
        .into_owned()
}

fn folder(path: &Path, mailroom: &mut Mailroom<'_>) -> Result<(String, Vec<Letter>), SeriesError> {
    let fault = |source| SeriesError::Read {
        path: path.to_owned(),
        source,
    };
    let mut names: Vec<PathBuf> = Vec::new();
    let mut others = 0;
    for item in fs::read_dir(path).map_err(fault)? {
        let item = item.map_err(fault)?.path();
        let extension = item.extension().unwrap_or_default().to_string_lossy();
        let known = ["patch", "diff", "mbox", "mbx", "eml"];
        if item.is_file() && known.contains(&extension.to_ascii_lowercase().as_str()) {
            names.push(item);
        } else {
            others += 1;
        }
    }
    names.sort();
    if names.is_empty() {
        return Err(SeriesError::NoPatch {
            place: format!("the folder {path:?}"),
            why: "it has no file that ends with .patch, .diff, .mbox, .mbx or .eml".to_owned(),
        });
    }
    if others > 0 {
        mailroom.notes.push(format!(
            "{others} files and folders in {path:?} are no patches by their names: passed over"
        ));
    }
    let mut letters = Vec::new();
    for name in names {
        letters.extend(file(&name, mailroom)?);
    }
    Ok((stem(path), letters))
}

/// The letters of a file, of which at least one is a patch.
fn file(path: &Path, mailroom: &mut Mailroom<'_>) -> Result<Vec<Letter>, SeriesError> {
    let fault = |source| SeriesError::Read {
        path: path.to_owned(),
        source,
    };
    let size = fs::metadata(path).map_err(fault)?.len();
    if size > LARGEST {
        return Err(none(
            path,
            &format!(
                "it has {} MiB, and at most {} are read",
                size >> 20,
                LARGEST >> 20
            ),
        ));
    }
    let bytes = fs::read(path).map_err(fault)?;
    read(path, bytes, mailroom)
}

fn none(path: &Path, why: &str) -> SeriesError {
    SeriesError::NoPatch {
        place: format!("{path:?}"),
        why: why.to_owned(),
    }
}

fn read(
    path: &Path,
    bytes: Vec<u8>,
    mailroom: &mut Mailroom<'_>,
) -> Result<Vec<Letter>, SeriesError> {
    if bytes.iter().all(u8::is_ascii_whitespace) {
        return Err(none(path, "it is empty"));
    }
    if bytes.contains(&0) {
        return Err(none(path, "it is no text: it has NUL bytes"));
    }
    if !is_mail(&bytes) {
        let letter = Letter::plain(path.to_owned(), bytes);
        check(&letter)?;
        return Ok(vec![letter]);
    }
    let letters = mailroom.open(path, &bytes)?;
    for letter in &letters {
        check(letter)?;
    }
    Ok(letters)
}

/// Refuses a patch whose diffs cannot be read.
fn check(letter: &Letter) -> Result<(), SeriesError> {
    let Content::Patch(_) = letter.content else {
        return Ok(());
    };
    let Some(patch): Option<Patch> = letter.clone().into_patch(Direction::Apply) else {
        return Ok(());
    };
    if text::changes(&patch)?.is_empty() {
        if let Some(why) = lost_line_breaks(&String::from_utf8_lossy(&patch.bytes)) {
            return Err(SeriesError::Mail {
                mail: letter.to_string(),
                why,
            });
        }
        return Err(PatchError::NoDiff {
            patch: patch.label(),
            why: "neither `diff --git` nor `---` and `+++` lines with hunks are in it",
        }
        .into());
    }
    Ok(())
}

/// Whether a file holds mails: it begins with an mbox's separator or with headers.
fn is_mail(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(64 * 1024)]);
    let mut lines = text
        .lines()
        .skip_while(|line| line.trim().is_empty())
        .peekable();
    let separator = |line: &str| line.starts_with("From ");
    let key = |line: &str| {
        let key = line.split_once(':').map(|(key, _)| key.to_owned())?;
        let plain = |letter: char| letter.is_ascii_alphanumeric() || letter == '-';
        (!key.is_empty() && key.chars().all(plain)).then_some(key)
    };
    if lines.peek().is_some_and(|line| separator(line)) {
        lines.next();
    }
    let mut keys = Vec::new();
    for line in lines {
        if line.trim_end().is_empty() {
            break;
        }
        match key(line) {
            Some(key) => keys.push(key.to_ascii_lowercase()),
            None if !keys.is_empty() && line.starts_with([' ', '\t', '>']) => {}
            None => return false,
        }
    }
    ["subject", "from", "date", "message-id"]
        .iter()
        .any(|known| keys.iter().any(|key| key == known))
}
