//! What a mail is: a patch, a cover letter, a reply, something else, or a patch that arrived
//! damaged.

use std::fmt;
use std::path::{Path, PathBuf};

use super::mail_split::MailText;
use super::subject_prefix::SubjectPrefix;
use crate::patch::diff;
use crate::spec::{Direction, Patch};

/// A mail of a file, or the whole of a file that is no mail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mail {
    /// The file that it was in, or the revision range.
    pub(crate) path: PathBuf,
    /// Which mail of the file it is, from 1, if the file has several.
    pub(crate) mail: Option<usize>,
    /// Its subject, as it stands; `None` for a plain diff.
    pub(crate) subject: Option<String>,
    /// Its subject, taken apart.
    pub(crate) prefix: SubjectPrefix,
    pub(crate) content: Content,
    /// What its `base-commit:` line says.
    pub(crate) base_commit: Option<String>,
    pub(crate) message_id: Option<String>,
}

/// What a mail is.
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

impl Mail {
    /// A file that is no mail: a diff with perhaps text around it.
    pub(crate) fn plain(path: PathBuf, bytes: Vec<u8>) -> Self {
        Self {
            path,
            mail: None,
            subject: None,
            prefix: SubjectPrefix::parse(""),
            content: Content::Patch(bytes),
            base_commit: None,
            message_id: None,
        }
    }

    /// Judges a mail. One that should be a patch and is none is an error: why.
    pub(crate) fn judge(
        path: &Path,
        number: Option<usize>,
        text: &MailText,
    ) -> Result<Self, String> {
        let header = SubjectPrefix::parse(&text.subject);
        let mut prefix = match &text.inner_subject {
            Some(subject) => SubjectPrefix::parse(subject),
            None => header.clone(),
        };
        // A subject in the body says what the patch is called, and the header's which part of
        // what it is.
        prefix.reply |= header.reply;
        if !header.reply && prefix.number.is_none() {
            prefix = SubjectPrefix {
                title: prefix.title,
                patch: prefix.patch || header.patch,
                ..header
            };
        }
        let diffs = diff::read(&Patch::new("", text.diff.clone(), Direction::Apply));
        let is_cover = prefix.number.is_some_and(|number| number.part == 0);
        let content = if is_cover && !prefix.reply {
            // Also one that shows the difference to the version before as a diff.
            Content::Cover
        } else if prefix.reply {
            // A fragment that is no whole diff is a remark.
            let own = diffs.is_ok_and(|diffs| !diffs.is_empty());
            Content::Reply(own.then(|| text.diff.clone()))
        } else if diffs.map_or(true, |diffs| !diffs.is_empty()) {
            // A malformed one is reported by whoever reads it, with its file and hunk.
            check_patch(text)?;
            Content::Patch(text.diff.clone())
        } else if prefix.patch {
            return Err(why_no_diff(text));
        } else {
            Content::Other
        };
        Ok(Self {
            path: path.to_owned(),
            mail: number,
            subject: Some(text.subject.clone()),
            prefix,
            content,
            base_commit: base_commit(&text.message)
                .or_else(|| base_commit(&String::from_utf8_lossy(&text.diff))),
            message_id: text.message_id.clone(),
        })
    }

    /// Whether it is the same mail as another, which arrived by another way: a list may have
    /// put its name into the subject, and a footer below the diffs.
    pub(crate) fn is_copy_of(&self, other: &Self) -> bool {
        let same_part = self.prefix.number == other.prefix.number;
        let same_id = same_part && self.message_id.is_some() && self.message_id == other.message_id;
        let same_subject = self.subject.is_some() && self.prefix == other.prefix;
        (same_id || same_subject) && self.bare_diffs() == other.bare_diffs()
    }

    /// Its diffs without the text around them.
    fn bare_diffs(&self) -> Option<Vec<&[u8]>> {
        let Content::Patch(bytes) = &self.content else {
            return None;
        };
        let lines: Vec<&[u8]> = bytes.split(|byte| *byte == b'\n').collect();
        let patch = Patch::new("", bytes.clone(), Direction::Apply);
        let Ok(diffs) = diff::read(&patch) else {
            return Some(lines);
        };
        if diffs.is_empty() || diffs.iter().any(|diff| diff.hunks.is_empty()) {
            // A mode, a name, or a binary file.
            return Some(lines);
        }
        let lines = diffs
            .iter()
            .flat_map(|diff| &lines[diff.line - 1..diff.end]);
        Some(lines.copied().collect())
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

    /// Whether it is a patch.
    pub(crate) fn is_patch(&self) -> bool {
        matches!(self.content, Content::Patch(_))
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
            subject: Some(self.prefix.title).filter(|title| !title.is_empty()),
            number: self.prefix.number,
            base_commit: self.base_commit,
        })
    }
}

impl fmt::Display for Mail {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&Self::name(&self.path, self.mail, self.subject.as_deref()))
    }
}

/// The commit in a `base-commit:` line.
fn base_commit(text: &str) -> Option<String> {
    text.lines().find_map(|line| {
        let commit = line.strip_prefix("base-commit:")?.trim();
        let hex = commit.len() >= 12 && commit.bytes().all(|letter| letter.is_ascii_hexdigit());
        hex.then(|| commit.to_owned())
    })
}

/// Refuses a mail whose diffs are not those of one patch.
fn check_patch(text: &MailText) -> Result<(), String> {
    if let [_, _, ..] = text.attached[..] {
        return Err(format!(
            "it has several patches attached ({}); save each to a file of its own",
            text.attached.join(", ")
        ));
    }
    if text.diff.contains(&0) {
        return Err("its diffs have a NUL byte, and so are no text".to_owned());
    }
    one_mail(&text.tail)
}

/// Why a mail that calls itself a patch has no diff.
fn why_no_diff(text: &MailText) -> String {
    let rest = String::from_utf8_lossy(&text.diff);
    if text.html {
        return "it is an HTML mail, and what HTML makes of a diff cannot be applied; ask for it \
                as plain text, or save it with `b4 am`"
            .to_owned();
    }
    lost_line_breaks(&text.subject)
        .or_else(|| lost_line_breaks(&text.message))
        .or_else(|| lost_line_breaks(&rest))
        .or_else(|| only_quoted(&text.message))
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
                .is_some_and(|subject| SubjectPrefix::parse(subject).patch);
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
