//! A mail, and what it is: a patch, a cover letter, a reply, something else, or a
//! patch that arrived damaged.
//!
//! Pure: git has split and decoded it (the module `mailroom`), here it is judged.

use std::fmt;
use std::path::PathBuf;

use super::tag::Tag;
use crate::patch::text::{self, FileChange};
use crate::wanted::{Direction, Patch};

/// A mail of a file, or the whole of a file that is no mail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Letter {
    /// The file that it was in, or the revision range.
    pub(crate) path: PathBuf,
    /// Which mail of the file it is, from 1, if the file has several.
    pub(crate) mail: Option<usize>,
    /// Its subject, as it stands; `None` for a plain diff.
    pub(crate) subject: Option<String>,
    /// Its subject, taken apart.
    pub(crate) tag: Tag,
    pub(crate) content: Content,
    /// What its `base-commit:` line says.
    pub(crate) base_commit: Option<String>,
}

/// What a letter is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Content {
    /// A patch: its diffs.
    Patch(Vec<u8>),
    /// A series' cover letter.
    Cover,
    /// A reply, perhaps with a diff of its own.
    Reply(Option<Vec<u8>>),
    /// Another mail that means to be no patch.
    Other,
}

/// A mail as git gives it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Opened<'a> {
    /// As it arrived, headers and all.
    pub(crate) raw: &'a str,
    /// Its decoded subject.
    pub(crate) subject: &'a str,
    /// Its decoded message, up to its diffs.
    pub(crate) message: &'a str,
    /// The rest: its diffs, with what follows them.
    pub(crate) diff: &'a [u8],
}

impl Letter {
    /// A file that is no mail: a diff with perhaps text around it.
    pub(crate) fn plain(path: PathBuf, bytes: Vec<u8>) -> Self {
        Self {
            path,
            mail: None,
            subject: None,
            tag: Tag::parse(""),
            content: Content::Patch(bytes),
            base_commit: None,
        }
    }

    /// Judges a mail. What should be a patch and is none is an error: why.
    pub(crate) fn judge(
        path: PathBuf,
        mail: Option<usize>,
        opened: Opened<'_>,
    ) -> Result<Self, String> {
        let mut letter = Self {
            path,
            mail,
            subject: Some(opened.subject.to_owned()),
            tag: Tag::parse(opened.subject),
            content: Content::Other,
            base_commit: base_commit(opened.message)
                .or_else(|| base_commit(&String::from_utf8_lossy(opened.diff))),
        };
        // An in-body subject takes the place of the mail's own, which may be a reply's.
        letter.tag.reply |=
            Tag::parse(header(opened.raw, "subject").as_deref().unwrap_or_default()).reply;
        let diff = opened.diff.to_vec();
        let changes = text::changes(&Patch::new("", diff.clone(), Direction::Apply));
        let has_diff = changes.as_ref().map_or(true, |changes| !changes.is_empty());
        letter.content = if letter.tag.reply {
            // A fragment that is no whole diff is a remark.
            let own = changes.is_ok_and(|changes: Vec<FileChange>| !changes.is_empty());
            Content::Reply(own.then_some(diff))
        } else if has_diff {
            // A malformed one is told later, with its file and hunk.
            Content::Patch(diff)
        } else if letter.tag.number.is_some_and(|number| number.part == 0) {
            Content::Cover
        } else if letter.tag.patch {
            return Err(why_no_diff(&opened));
        } else {
            Content::Other
        };
        Ok(letter)
    }

    /// What it is called in errors: its number, its file and its subject.
    pub(crate) fn name(
        path: &std::path::Path,
        mail: Option<usize>,
        subject: Option<&str>,
    ) -> String {
        let place = match mail {
            Some(mail) => format!("mail {mail} of {path:?}"),
            None => format!("{path:?}"),
        };
        match subject {
            Some(subject) if !subject.is_empty() => format!("{place} ({subject:?})"),
            _ => place,
        }
    }

    /// Its diffs, if it is a patch.
    pub(crate) fn diff(&self) -> Option<&[u8]> {
        match &self.content {
            Content::Patch(diff) => Some(diff),
            _ => None,
        }
    }

    /// As a patch, if it is one.
    pub(crate) fn into_patch(self, direction: Direction) -> Option<Patch> {
        let Content::Patch(bytes) = self.content else {
            return None;
        };
        Some(Patch {
            path: self.path,
            mail: self.mail,
            bytes,
            direction,
            subject: Some(self.tag.title).filter(|title| !title.is_empty()),
            number: self.tag.number,
        })
    }
}

impl fmt::Display for Letter {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&Self::name(&self.path, self.mail, self.subject.as_deref()))
    }
}

/// A header's value in a raw mail, its lines joined.
pub(crate) fn header(raw: &str, name: &str) -> Option<String> {
    let mut value: Option<String> = None;
    for line in raw.lines() {
        if line.trim_end().is_empty() {
            break;
        }
        match &mut value {
            Some(value) if line.starts_with([' ', '\t']) => {
                value.push(' ');
                value.push_str(line.trim());
            }
            Some(_) => break,
            None => {
                value = line
                    .split_once(':')
                    .filter(|(key, _)| key.trim_end().eq_ignore_ascii_case(name))
                    .map(|(_, text)| text.trim().to_owned());
            }
        }
    }
    value
}

/// The commit in a `base-commit:` line.
fn base_commit(text: &str) -> Option<String> {
    text.lines().find_map(|line| {
        let commit = line.strip_prefix("base-commit:")?.trim();
        let hex = commit.len() >= 12 && commit.bytes().all(|letter| letter.is_ascii_hexdigit());
        hex.then(|| commit.to_owned())
    })
}

/// Why a mail that calls itself a patch has no diff.
fn why_no_diff(opened: &Opened<'_>) -> String {
    let rest = String::from_utf8_lossy(opened.diff);
    let kind = header(opened.raw, "content-type").unwrap_or_default();
    if let Some(lost) = lost_line_breaks(opened.message).or_else(|| lost_line_breaks(&rest)) {
        return lost;
    }
    if kind.to_ascii_lowercase().starts_with("text/html") {
        return "it is an HTML mail, which has no diff that git could read; ask for it as plain \
                text, or save it with `b4 am`"
            .to_owned();
    }
    let quoted = |line: &str| {
        line.starts_with('>')
            && line
                .trim_start_matches(['>', ' '])
                .starts_with("diff --git ")
    };
    if opened.message.lines().chain(rest.lines()).any(quoted) {
        return "it only quotes a diff; save the mail that it answers".to_owned();
    }
    "it holds no diff, though its subject says that it is a patch".to_owned()
}

/// Whether a text holds a diff on a line that also has what stood before it: then its
/// line breaks are lost, and nobody can tell where they were. Why it is refused.
pub(crate) fn lost_line_breaks(text: &str) -> Option<String> {
    let line = text.lines().find(|line| {
        !line.starts_with('>')
            && (line.contains(" diff --git a/") || line.starts_with("diff --git a/"))
            && line.contains(" @@ -")
    })?;
    let names = line.split("diff --git a/").nth(1).unwrap_or_default();
    let file = names.split_whitespace().next().unwrap_or_default();
    let hunk = line
        .split(" @@ ")
        .nth(1)
        .map(|header| format!(", hunk 1 (@@ {header} @@)"))
        .unwrap_or_default();
    Some(format!(
        "its line breaks are lost (the diff of {file}{hunk} follows other text on one line), and \
         cannot be restored; save the mail as it was sent, for instance with `b4 am`"
    ))
}
