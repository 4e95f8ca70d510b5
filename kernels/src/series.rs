//! Series: the patches that arguments of the command line mean, in their order.
//!
//! An argument is a diff, a mail, an mbox with a whole thread, a folder of these, the
//! standard input, or a revision range of a repository. Mails are sorted by their `n/m`.
//! Whatever could make the answer one about other patches than were meant (a missing part,
//! two versions in one file, a mail whose line breaks are lost) is refused with the mail's
//! number and subject. Whether a series applies to a source is for the module `patch`.

mod argument;
mod error;
#[cfg(test)]
pub(crate) mod fuzzing;
mod mail;
mod mail_split;
mod order;
mod range;
mod subject_prefix;

use std::path::Path;

use crate::cache::Cache;
use crate::spec::{Direction, Patch};

pub use error::SeriesError;
use mail::{Content, Mail};

/// Patches that belong together, in the order in which they are applied or taken back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Series {
    /// A short name, for folders and reports.
    pub name: String,
    /// What it is about: its cover letter's subject, or its only patch's.
    pub title: Option<String>,
    /// Its patches, in order; never empty.
    pub patches: Vec<Patch>,
    /// What the user should know: ignored mails, line ends, order.
    pub notes: Vec<String>,
    /// The commit that its author made it on, if its mails say.
    pub base_commit: Option<String>,
}

/// Reads the series that `words` mean; together they are one. Paths are relative to
/// `cwd`, git works in a scratch folder of the cache.
///
/// # Errors
/// A word means nothing, or what it means cannot be used as it is; the sentence names
/// the mail, the file and the hunk.
pub fn read(
    words: &[String],
    direction: Direction,
    cwd: &Path,
    cache: &Cache,
) -> Result<Series, SeriesError> {
    let mut reader = argument::Reader {
        cwd,
        cache,
        tools: std::env::var_os("PATH").unwrap_or_default(),
        notes: Vec::new(),
    };
    let mut names = Vec::new();
    let mut read = Vec::new();
    for word in words {
        let (name, mails) = argument::mails(word, &mut reader)?;
        names.push(name);
        read.push(mails);
    }
    let mut notes = reader.notes;
    notes.extend(own_diff(&mut read)?);
    let title = read
        .iter()
        .flatten()
        .find(|mail| mail.content == Content::Cover)
        .map(|mail| mail.prefix.title.clone());
    let base_commit = read
        .iter()
        .flatten()
        .find_map(|mail| mail.base_commit.clone());
    notes.extend(ignored(read.iter().flatten()));
    let ordered = order::arrange(read).map_err(SeriesError::Order)?;
    notes.extend(ordered.notes);
    let mut patches: Vec<Patch> = ordered
        .mails
        .into_iter()
        .filter_map(|mail| mail.into_patch(direction))
        .collect();
    for patch in &mut patches {
        // The cover letter or the first patch says it for all.
        patch.base_commit.clone_from(&base_commit);
    }
    if direction == Direction::Revert {
        patches.reverse();
    }
    let title = title
        .or_else(|| match &patches[..] {
            [only] => only.subject.clone(),
            _ => None,
        })
        .filter(|title| !title.is_empty());
    Ok(Series {
        name: name(&names),
        title,
        patches,
        notes,
        base_commit,
    })
}

/// The word that means the same revision range in any folder; `None` if `word` cannot be a range.
pub fn range_word(word: &str, cwd: &Path) -> Option<String> {
    range::Range::parse(word, cwd).map(|range| range.word())
}

/// The words' names as one.
fn name(names: &[String]) -> String {
    match names {
        [first, .., last] if names.len() > 3 => format!("{first}..{last}"),
        _ => names.join("+"),
    }
}

/// Where no mail is a patch, takes the diff of the only reply that has one; what it
/// says of that.
fn own_diff(words: &mut [Vec<Mail>]) -> Result<Option<String>, SeriesError> {
    let mut mails: Vec<&mut Mail> = words.iter_mut().flatten().collect();
    if mails.iter().any(|mail| mail.is_patch()) {
        return Ok(None);
    }
    let place = match &mails[..] {
        [] => "the list of patches".to_owned(),
        [only] => only.to_string(),
        [first, ..] => format!("{:?}", first.path),
    };
    let none = |why: &str| SeriesError::NoPatch {
        place: place.clone(),
        why: why.to_owned(),
    };
    let why = match &mails[..] {
        [] => "it is empty",
        [only] => match only.content {
            Content::Reply(None) => {
                "it is a reply without a diff of its own; save the mail that it answers"
            }
            Content::Cover => "it is a cover letter, without the patches that it announces",
            _ => "it is a mail without a diff",
        },
        _ => "its mails are replies, cover letters and others without a diff",
    };
    let mut own = mails
        .iter_mut()
        .filter(|mail| matches!(mail.content, Content::Reply(Some(_))));
    let Some(mail) = own.next() else {
        return Err(none(why));
    };
    if let Some(other) = own.next() {
        return Err(none(&format!(
            "it has only replies, of which several have diffs of their own ({mail} and {other}); \
             save the one that is meant"
        )));
    }
    let note = format!("{mail} is a reply: its own diff is used, what it quotes is not");
    if let Content::Reply(Some(diff)) = &mut mail.content {
        mail.content = Content::Patch(std::mem::take(diff));
        mail.prefix.number = None;
    }
    Ok(Some(note))
}

/// Counts the mails that are no patches.
fn ignored<'a>(mails: impl Iterator<Item = &'a Mail>) -> Option<String> {
    let (mut covers, mut replies, mut others) = (0, 0, 0);
    let mut own = Vec::new();
    for mail in mails {
        match &mail.content {
            Content::Patch(_) => {}
            Content::Cover => covers += 1,
            Content::Reply(None) => replies += 1,
            Content::Reply(Some(_)) => own.push(mail.to_string()),
            Content::Other => others += 1,
        }
    }
    let count = covers + replies + others + own.len();
    if count == 0 {
        return None;
    }
    let mut kinds = Vec::new();
    for (count, one, many) in [
        (covers, "cover letter", "cover letters"),
        (replies, "reply", "replies"),
        (others, "mail without a patch", "mails without a patch"),
    ] {
        match count {
            0 => {}
            1 => kinds.push(format!("1 {one}")),
            count => kinds.push(format!("{count} {many}")),
        }
    }
    for reply in own {
        kinds.push(format!("a reply with a diff of its own, {reply}"));
    }
    Some(format!(
        "{count} {} ignored: {}",
        if count == 1 { "mail" } else { "mails" },
        kinds.join(", ")
    ))
}
