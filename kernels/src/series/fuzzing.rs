//! What the crate's properties (the module `properties`) reach of this module.

use proptest::prelude::*;

use super::letter::{Content, Letter, Opened, lost_line_breaks, one_mail, why_no_plain_diff};
use super::tag::Tag;
use super::{letter, mime, order, word};

/// Reads a mail and a diff in all ways that need no git.
pub(crate) fn mail(raw: &[u8], diff: &[u8]) {
    let text = String::from_utf8_lossy(raw);
    let parts = mime::prepare(raw);
    let _ = word::is_mail(raw);
    let _ = (
        lost_line_breaks(&text),
        one_mail(&text),
        why_no_plain_diff(&text),
    );
    let subject = letter::header(&text, "subject").unwrap_or_default();
    let _ = Letter::judge(
        "x.mbox".into(),
        Some(1),
        Opened {
            raw: &text,
            parts: &parts,
            subject: &subject,
            header: &subject,
            message: &text,
            diff,
        },
    );
}

pub(crate) fn subject(text: &str) {
    let tag = Tag::parse(text);
    assert!(
        tag.number.is_none_or(|number| number.of > 0),
        "{text:?}: {tag:?}"
    );
    assert_eq!(
        Tag::parse(&tag.title).title,
        Tag::parse(&Tag::parse(&tag.title).title).title
    );
}

fn letter(subject: &str, content: &str) -> Letter {
    Letter {
        path: "x.mbox".into(),
        mail: Some(1),
        subject: Some(subject.to_owned()),
        tag: Tag::parse(subject),
        content: Content::Patch(content.as_bytes().to_vec()),
        base_commit: None,
    }
}

/// Orders letters given as part, of, version, and whether their diffs differ.
pub(crate) fn order(words: &[Vec<(u32, u32, u32, bool)>]) -> Result<(), TestCaseError> {
    let given: Vec<Vec<Letter>> = words
        .iter()
        .map(|word| {
            word.iter()
                .enumerate()
                .map(|(index, (part, of, version, differs))| {
                    let subject = match of {
                        0 => format!("[PATCH] p{part}"),
                        of => format!("[PATCH v{version} {part}/{of}] p{part}"),
                    };
                    let content = if *differs {
                        index.to_string()
                    } else {
                        String::new()
                    };
                    letter(&subject, &content)
                })
                .collect()
        })
        .collect();
    let all: Vec<Letter> = given.iter().flatten().cloned().collect();
    let Ok(ordered) = order::arrange(given) else {
        return Ok(());
    };
    // Everything came out, but for copies.
    for letter in &all {
        prop_assert!(ordered.letters.contains(letter), "{letter} is lost");
    }
    // Each part stands after the one before it.
    if all.len() > 1 {
        for (index, letter) in ordered.letters.iter().enumerate() {
            if let Some(number) = letter.tag.number.filter(|number| number.of > 1) {
                prop_assert!(1 <= number.part && number.part <= number.of);
                let before = index
                    .checked_sub(1)
                    .and_then(|index| ordered.letters.get(index));
                let before = before.and_then(|letter| letter.tag.number);
                if number.part > 1 && ordered.letters.len() > 1 {
                    prop_assert_eq!(before.map(|before| before.part + 1), Some(number.part));
                }
            }
        }
    }
    Ok(())
}

/// Orders a whole series that was shuffled, and cut into two files.
pub(crate) fn whole(order: &[u32], cut: usize) -> Result<(), TestCaseError> {
    let of = order.len();
    let mut first: Vec<Letter> = order
        .iter()
        .map(|part| {
            letter(
                &format!("[PATCH {part:02}/{of}] p{part}"),
                &part.to_string(),
            )
        })
        .collect();
    let second = first.split_off(cut);
    let ordered = order::arrange(vec![first, second]).map_err(TestCaseError::fail)?;
    let parts: Vec<u32> = ordered
        .letters
        .iter()
        .filter_map(|letter| Some(letter.tag.number?.part))
        .collect();
    prop_assert_eq!(
        parts,
        (1..=u32::try_from(of).unwrap_or(0)).collect::<Vec<_>>()
    );
    Ok(())
}
