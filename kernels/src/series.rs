//! Series: the patches that a word of the command line means, in their order.
//!
//! A word is a diff, a mail, an mbox with a whole thread, a folder of these, the
//! standard input, or a revision range of a repository. Mails are taken apart by git
//! and sorted by their `n/m`; whatever would make the answer one about other patches
//! than were meant (a part that is missing, two versions in one file, a mail whose
//! line breaks are lost) is refused with the mail's number and subject. Whether a
//! series fits a source is not known here: the module `patch` tells.

mod error;
#[cfg(test)]
pub(crate) mod fuzzing;
mod letter;
mod mailroom;
mod mime;
mod order;
mod range;
mod tag;
mod word;

use std::ffi::OsString;
use std::path::Path;

use crate::cache::Cache;
use crate::spec::{Direction, Patch};

pub use error::SeriesError;
use letter::{Content, Letter};
use mailroom::Mailroom;

/// Patches that belong together, in the order in which they are applied or taken back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Series {
    /// A short name, for folders and reports.
    pub name: String,
    /// What it is about: its cover letter's subject, or its only patch's.
    pub title: Option<String>,
    /// Its patches, in order; never empty.
    pub patches: Vec<Patch>,
    /// What the user should know: mails that were passed over, line ends, order.
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
    let path: OsString = std::env::var_os("PATH").unwrap_or_default();
    let mut mailroom = Mailroom::new(cache, path);
    let mut names = Vec::new();
    let mut read = Vec::new();
    for word in words {
        let (name, letters) = word::letters(word, cwd, &mut mailroom)?;
        names.push(name);
        read.push(letters);
    }
    let mut notes = mailroom.notes;
    notes.extend(own_diff(&mut read)?);
    let title = read
        .iter()
        .flatten()
        .find(|letter| letter.content == Content::Cover)
        .map(|letter| letter.tag.title.clone());
    let base_commit = read
        .iter()
        .flatten()
        .find_map(|letter| letter.base_commit.clone());
    notes.extend(passed_over(read.iter().flatten()));
    let ordered = order::arrange(read).map_err(SeriesError::Order)?;
    notes.extend(ordered.notes);
    let mut patches: Vec<Patch> = ordered
        .letters
        .into_iter()
        .filter_map(|letter| letter.into_patch(direction))
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
fn own_diff(words: &mut [Vec<Letter>]) -> Result<Option<String>, SeriesError> {
    let mut letters: Vec<&mut Letter> = words.iter_mut().flatten().collect();
    if letters.iter().any(|letter| letter.diff().is_some()) {
        return Ok(None);
    }
    let place = match &letters[..] {
        [] => "the list of patches".to_owned(),
        [only] => only.to_string(),
        [first, ..] => format!("{:?}", first.path),
    };
    let none = |why: &str| SeriesError::NoPatch {
        place: place.clone(),
        why: why.to_owned(),
    };
    let why = match &letters[..] {
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
    let mut own = letters
        .iter_mut()
        .filter(|letter| matches!(letter.content, Content::Reply(Some(_))));
    let Some(letter) = own.next() else {
        return Err(none(why));
    };
    if let Some(other) = own.next() {
        return Err(none(&format!(
            "it has only replies, of which several have diffs of their own ({letter} and {other}); \
             save the one that is meant"
        )));
    }
    let note = format!("{letter} is a reply: its own diff is used, what it quotes is not");
    if let Content::Reply(Some(diff)) = &mut letter.content {
        letter.content = Content::Patch(std::mem::take(diff));
        letter.tag.number = None;
    }
    Ok(Some(note))
}

/// Counts the mails that are no patches.
fn passed_over<'a>(letters: impl Iterator<Item = &'a Letter>) -> Option<String> {
    let (mut covers, mut replies, mut others) = (0, 0, 0);
    let mut own = Vec::new();
    for letter in letters {
        match &letter.content {
            Content::Patch(_) => {}
            Content::Cover => covers += 1,
            Content::Reply(None) => replies += 1,
            Content::Reply(Some(_)) => own.push(letter.to_string()),
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
        "{count} {} passed over: {}",
        if count == 1 { "mail" } else { "mails" },
        kinds.join(", ")
    ))
}
