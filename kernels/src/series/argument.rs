//! What an argument of the command line means: a file, a folder, a revision range.

use std::ffi::OsString;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use super::SeriesError;
use super::mail::{self, Mail};
use super::mail_split;
use super::range::{self, Range};
use crate::cache::Cache;
use crate::files;
use crate::patch;
use crate::spec::Direction;
use crate::spelling;

/// The largest file that is read, in bytes: ten times the largest series that was
/// ever sent to a kernel list.
const LARGEST: u64 = 64 * 1024 * 1024;

/// How many mails of one file are read; the longest threads have some hundred.
const MOST: usize = 5000;

/// What arguments are read with.
pub(crate) struct Reader<'a> {
    /// The folder that paths are relative to.
    pub(crate) cwd: &'a Path,
    /// Where git works.
    pub(crate) cache: &'a Cache,
    /// The value of PATH, where git is found.
    pub(crate) tools: OsString,
    /// What the user should know of what was read.
    pub(crate) notes: Vec<String>,
}

/// The mails that an argument means, and a short name of it.
pub(crate) fn mails(
    word: &str,
    reader: &mut Reader<'_>,
) -> Result<(String, Vec<Mail>), SeriesError> {
    let cwd = reader.cwd;
    let path = cwd.join(word);
    if !word.is_empty() && path.is_dir() {
        return folder(&path, reader);
    }
    if !word.is_empty() && path.exists() {
        return Ok((stem(&path), file(&path, reader)?));
    }
    if let Some(range) = Range::parse(word, cwd) {
        let Reader { cache, tools, .. } = reader;
        let mails = range::mails(&range, cache, tools, &mut reader.notes)?;
        return Ok((range.name().replace('/', "-"), mails));
    }
    Err(SeriesError::Nothing {
        word: word.to_owned(),
        cwd: cwd.to_owned(),
        hint: hint(word, cwd),
    })
}

/// What may have been meant by a word that means nothing, as a clause.
fn hint(word: &str, cwd: &Path) -> String {
    if word.contains("://") || (word.contains('@') && !word.starts_with("git:")) {
        return "; nothing is fetched: `b4 am` makes an mbox of a message's address".to_owned();
    }
    if word.contains("...") {
        return "; three dots are no range of patches, two are".to_owned();
    }
    let path = Path::new(word);
    let (folder, name) = (path.parent().unwrap_or(path), path.file_name());
    let names: Vec<String> = fs::read_dir(cwd.join(folder))
        .into_iter()
        .flatten()
        .filter_map(|item| item.ok()?.file_name().into_string().ok())
        .collect();
    let name = name.unwrap_or_default().to_string_lossy();
    match spelling::nearest(&name, names.iter().map(String::as_str)) {
        Some(near) => format!("; did you mean {:?}?", folder.join(near)),
        None => String::new(),
    }
}

/// At most one byte more than may be read.
fn limited(from: impl Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.take(LARGEST + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn stem(path: &Path) -> String {
    path.file_stem()
        .unwrap_or(path.as_os_str())
        .to_string_lossy()
        .into_owned()
}

/// The mails of a folder's files: in the order of a quilt `series` file if it has
/// one, else of their names.
fn folder(path: &Path, reader: &mut Reader<'_>) -> Result<(String, Vec<Mail>), SeriesError> {
    let fault = |path: &Path| {
        let path = path.to_owned();
        |source| SeriesError::Read { path, source }
    };
    let mut names: Vec<PathBuf> = Vec::new();
    let series = path.join("series");
    if series.is_file() {
        let text = files::read_text(&series).map_err(fault(&series))?;
        for line in text.lines() {
            let line = line.split(" #").next().unwrap_or_default().trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let mut words = line.split_whitespace();
            names.extend(words.next().map(|name| path.join(name)));
            if words.any(|option| option != "-p1") {
                return Err(SeriesError::NoPatch {
                    place: format!("{series:?}"),
                    why: format!("its line {line:?} has options that are not supported"),
                });
            }
        }
    } else {
        let mut others = 0;
        for item in fs::read_dir(path).map_err(fault(path))? {
            let item = item.map_err(fault(path))?.path();
            let extension = item.extension().unwrap_or_default().to_string_lossy();
            let known = ["patch", "diff", "mbox", "mbx", "eml"];
            // Also what is no regular file, so that it is reported rather than left out.
            if !item.is_dir() && known.contains(&extension.to_ascii_lowercase().as_str()) {
                names.push(item);
            } else {
                others += 1;
            }
        }
        names.sort();
        if others > 0 && !names.is_empty() {
            reader.notes.push(format!(
                "{others} other {} in {path:?} ignored",
                if others == 1 { "item" } else { "items" }
            ));
        }
    }
    if names.is_empty() {
        return Err(SeriesError::NoPatch {
            place: format!("the folder {path:?}"),
            why: "it has no file that ends with .patch, .diff, .mbox, .mbx or .eml".to_owned(),
        });
    }
    let mut mails = Vec::new();
    for name in names {
        mails.extend(file(&name, reader)?);
    }
    Ok((stem(path), mails))
}

/// The mails of a file.
fn file(path: &Path, reader: &mut Reader<'_>) -> Result<Vec<Mail>, SeriesError> {
    let bytes = files::open(path)
        .and_then(limited)
        .map_err(|source| SeriesError::Read {
            path: path.to_owned(),
            source,
        })?;
    read(path, bytes, reader)
}

fn none(path: &Path, why: &str) -> SeriesError {
    SeriesError::NoPatch {
        place: format!("{path:?}"),
        why: why.to_owned(),
    }
}

fn read(path: &Path, bytes: Vec<u8>, reader: &mut Reader<'_>) -> Result<Vec<Mail>, SeriesError> {
    if bytes.iter().all(u8::is_ascii_whitespace) {
        return Err(none(path, "it is empty"));
    }
    if bytes.len() as u64 > LARGEST {
        let most = LARGEST >> 20;
        return Err(none(
            path,
            &format!("it has more than {most} MiB, which no series has"),
        ));
    }
    if let Some(why) = no_text(&bytes) {
        return Err(none(path, &why));
    }
    if !is_mail(&bytes) {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let mail = Mail::plain(path.to_owned(), bytes);
        if check(&mail)? == 0 {
            return Err(none(path, &mail::why_no_plain_diff(&text)));
        }
        mail::one_mail(&text).map_err(|why| none(path, &why))?;
        return Ok(vec![mail]);
    }
    let plain = mail_split::without_cr(&bytes);
    if plain.is_some() {
        reader
            .notes
            .push(format!("{path:?} has CRLF line ends: read without them"));
    }
    let raw = mail_split::split(plain.as_deref().unwrap_or(&bytes));
    if raw.len() > MOST {
        return Err(none(
            path,
            &format!("it has more than {MOST} mails: give the series alone"),
        ));
    }
    let several = raw.len() > 1;
    let mut mails = Vec::new();
    for (raw, number) in raw.iter().zip(1..) {
        let number = several.then_some(number);
        let fault = |subject: Option<&str>, why| SeriesError::Mail {
            mail: Mail::name(path, number, subject),
            why,
        };
        let text = mail_split::decode(raw).map_err(|why| fault(None, why))?;
        let mail = Mail::judge(path, number, &text);
        let mail = mail.map_err(|why| fault(Some(&text.subject), why))?;
        check(&mail)?;
        if let Some(left_out) = text.left_out.filter(|_| mail.is_patch()) {
            reader.notes.push(format!("{mail} {left_out}"));
        }
        mails.push(mail);
    }
    Ok(mails)
}

/// Why bytes are no text.
fn no_text(bytes: &[u8]) -> Option<String> {
    for (magic, what) in [
        (&b"\x1f\x8b"[..], "gzip"),
        (b"\xfd7zXZ\0", "xz"),
        (b"\x28\xb5\x2f\xfd", "zstd"),
        (b"BZh", "bzip2"),
        (b"PK\x03\x04", "zip"),
    ] {
        if bytes.starts_with(magic) {
            return Some(format!("it is compressed ({what}): unpack it first"));
        }
    }
    if bytes.starts_with(b"\xff\xfe") || bytes.starts_with(b"\xfe\xff") {
        return Some("it is UTF-16, as some shells' `>` writes it: save it as UTF-8".to_owned());
    }
    let coloured = bytes.split(|byte| *byte == b'\n').any(|line| {
        let line = String::from_utf8_lossy(line);
        let text = line
            .strip_prefix("\x1b[")
            .and_then(|rest| rest.split_once('m'));
        text.is_some_and(|(_, text)| text.starts_with("diff --git ") || text.starts_with("@@ -"))
    });
    if coloured {
        return Some(
            "it has a terminal's colour codes (escape sequences): make it with `--no-color`"
                .to_owned(),
        );
    }
    let nul = bytes.iter().position(|byte| *byte == 0)?;
    let line = 1 + bytes[..nul].iter().filter(|byte| **byte == b'\n').count();
    Some(format!("it is no text: line {line} has a NUL byte"))
}

/// Refuses a patch whose diffs cannot be read. How many files they change.
fn check(mail: &Mail) -> Result<usize, SeriesError> {
    match mail.clone().into_patch(Direction::Apply) {
        Some(patch) => Ok(patch::check(&patch)?),
        None => Ok(0),
    }
}

/// Whether a file holds mails: it begins with an mbox's separator or with headers.
pub(super) fn is_mail(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(64 * 1024)]);
    let mut lines = text
        .lines()
        .skip_while(|line| line.trim().is_empty())
        .peekable();
    let separator = |line: &str| line.starts_with("From ");
    let key = |line: &str| {
        let key = line.split_once(':').map(|(key, _)| key.to_owned())?;
        let plain = |mail: char| mail.is_ascii_alphanumeric() || mail == '-';
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
