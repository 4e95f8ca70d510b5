//! A mail, and what it is: a patch, a cover letter, a reply, something else, or a
//! patch that arrived damaged.
//!
//! Pure: git has split and decoded it (the module `mailroom`), here it is judged.

use std::fmt;
use std::path::{Path, PathBuf};

use super::mime::Prepared;
use super::tag::Tag;
use crate::patch::text;
use crate::spec::{Direction, Patch};

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
    /// What its parts are.
    pub(crate) parts: &'a Prepared,
    /// Its decoded subject; the one in its body, if there is one.
    pub(crate) subject: &'a str,
    /// The decoded subject of its header.
    pub(crate) header: &'a str,
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

    /// A reply that needs no git to see that it has no diff of its own, as most mails of
    /// a thread.
    pub(crate) fn remark(
        path: &Path,
        mail: Option<usize>,
        raw: &str,
        subject: &str,
    ) -> Option<Self> {
        let tag = Tag::parse(subject);
        let diff = raw.lines().any(|line| {
            line.starts_with("diff ") || line.starts_with("--- ") || line.starts_with("@@ ")
        });
        let hidden = raw.to_ascii_lowercase().contains("base64");
        (tag.reply && !diff && !hidden).then(|| Self {
            path: path.to_owned(),
            mail,
            subject: Some(subject.to_owned()),
            tag,
            content: Content::Reply(None),
            base_commit: None,
        })
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
            subject: Some(opened.header.to_owned()),
            tag: Tag::parse(opened.subject),
            content: Content::Other,
            base_commit: base_commit(opened.message)
                .or_else(|| base_commit(&String::from_utf8_lossy(opened.diff))),
        };
        // A subject in the body says what the patch is called, and the header's which
        // part of what it is.
        let header = Tag::parse(opened.header);
        letter.tag.reply |= header.reply;
        if !header.reply && letter.tag.number.is_none() {
            letter.tag = Tag {
                title: letter.tag.title,
                patch: letter.tag.patch || header.patch,
                ..header
            };
        }
        // What an HTML mail shows as a diff has its marks in it.
        let diff = if opened.parts.html { b"" } else { opened.diff };
        let changes = text::changes(&Patch::new("", diff.to_vec(), Direction::Apply));
        letter.content =
            if letter.tag.number.is_some_and(|number| number.part == 0) && !letter.tag.reply {
                // Also one that shows the difference to the version before as a diff.
                Content::Cover
            } else if letter.tag.reply {
                // A fragment that is no whole diff is a remark.
                let own = changes.is_ok_and(|changes| !changes.is_empty());
                Content::Reply(own.then(|| diff.to_vec()))
            } else if changes.map_or(true, |changes| !changes.is_empty()) {
                // A malformed one is told by whoever reads it, with its file and hunk.
                if let [_, _, ..] = opened.parts.attached[..] {
                    return Err(format!(
                        "it has several patches attached ({}); save each to a file of its own",
                        opened.parts.attached.join(", ")
                    ));
                }
                if diff.contains(&0) {
                    return Err("its diffs have a NUL byte, and so are no text".to_owned());
                }
                one_mail(&String::from_utf8_lossy(diff))?;
                Content::Patch(diff.to_vec())
            } else if letter.tag.patch {
                return Err(why_no_diff(&opened));
            } else {
                Content::Other
            };
        Ok(letter)
    }

    /// What it is called in errors: its number, its file and its subject.
    pub(crate) fn name(path: &Path, mail: Option<usize>, subject: Option<&str>) -> String {
        let place = match mail {
            Some(mail) => format!("mail {mail} of {path:?}"),
            None => format!("{path:?}"),
        };
        match subject {
            Some(subject) if !subject.is_empty() => {
                // Of a mail without line breaks all is the subject.
                let subject: String = subject.chars().take(100).collect();
                format!("{place} ({subject:?})")
            }
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
            base_commit: self.base_commit,
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
    if opened.parts.html {
        return "it is an HTML mail, and what HTML makes of a diff cannot be applied; ask for it \
                as plain text, or save it with `b4 am`"
            .to_owned();
    }
    lost_line_breaks(opened.message)
        .or_else(|| lost_line_breaks(opened.raw))
        .or_else(|| lost_line_breaks(&rest))
        .or_else(|| only_quoted(opened.message))
        .or_else(|| only_quoted(&rest))
        .unwrap_or_else(|| {
            "it holds no diff, though its subject says that it is a patch".to_owned()
        })
}

/// Why a file that is no mail has no diff.
pub(crate) fn why_no_plain_diff(text: &str) -> String {
    let start = text.trim_start().to_ascii_lowercase();
    if start.starts_with("<!doctype html") || start.starts_with("<html") {
        return "it is a web page; save the mail itself (an archive has it as `raw` or as an \
                mbox), or get it with `b4 am`"
            .to_owned();
    }
    let starts = |beginning: &str| text.lines().any(|line| line.starts_with(beginning));
    if starts("*** ") && starts("--- ") {
        return "it is a context diff; make it with `diff -u` or git".to_owned();
    }
    lost_line_breaks(text)
        .or_else(|| only_quoted(text))
        .unwrap_or_else(|| {
            "neither `diff --git` nor `---` and `+++` lines with hunks are in it".to_owned()
        })
}

/// Whether all diffs of a text are quoted. Why it is refused.
fn only_quoted(text: &str) -> Option<String> {
    let quoted = |line: &str| {
        let inside = line.trim_start_matches(['>', ' ']);
        line.starts_with('>') && (inside.starts_with("diff --git ") || inside.starts_with("@@ -"))
    };
    text.lines()
        .any(quoted)
        .then(|| "it only quotes a diff; save the mail that it answers".to_owned())
}

/// Refuses a text in which another mail or commit begins, of which git would make one
/// patch, or which has them in the wrong order.
pub(crate) fn one_mail(text: &str) -> Result<(), String> {
    let hex = |text: &str| {
        text.get(..40)
            .is_some_and(|id| id.bytes().all(|letter| letter.is_ascii_hexdigit()))
    };
    let mut commits = 0;
    for (line, number) in text.lines().zip(1..) {
        let mail = line.strip_prefix("From ").is_some_and(hex)
            || line
                .strip_prefix("Subject: ")
                .is_some_and(|subject| Tag::parse(subject).patch);
        if mail {
            return Err(format!(
                "another mail begins at line {number} of its diffs, without what separates mails; \
                 save each to a file of its own, or all as one mbox"
            ));
        }
        commits += usize::from(line.strip_prefix("commit ").is_some_and(hex));
    }
    if commits > 1 {
        return Err(
            "it has several commits as `git log -p` shows them, the newest first; make them with \
             `git format-patch --stdout A..B`"
                .to_owned(),
        );
    }
    Ok(())
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
