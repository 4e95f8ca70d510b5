//! What the crate's properties (the module `properties`) reach of this module.

use proptest::prelude::*;

use super::mail::{Content, Mail, lost_line_breaks, one_mail, why_no_plain_diff};
use super::subject_prefix::SubjectPrefix;
use super::{argument, mail_split, order};

/// Reads a file of mails, and a mail whose diff is `diff`.
pub(crate) fn mail(raw: &[u8], diff: &[u8]) {
    let text = String::from_utf8_lossy(raw);
    let _ = argument::is_mail(raw);
    let _ = (
        lost_line_breaks(&text),
        one_mail(&text),
        why_no_plain_diff(&text),
    );
    for raw in mail_split::split(raw) {
        if let Ok(mut text) = mail_split::decode(&raw) {
            let _ = Mail::judge("x.mbox".as_ref(), Some(1), &text);
            text.diff = diff.to_vec();
            let _ = Mail::judge("x.mbox".as_ref(), Some(1), &text);
        }
    }
}

pub(crate) fn subject(text: &str) {
    let prefix = SubjectPrefix::parse(text);
    assert!(
        prefix.number.is_none_or(|number| number.of > 0),
        "{text:?}: {prefix:?}"
    );
    assert_eq!(
        SubjectPrefix::parse(&prefix.title).title,
        SubjectPrefix::parse(&SubjectPrefix::parse(&prefix.title).title).title
    );
}

fn a_mail(subject: &str, content: &str) -> Mail {
    Mail {
        path: "x.mbox".into(),
        mail: Some(1),
        subject: Some(subject.to_owned()),
        prefix: SubjectPrefix::parse(subject),
        content: Content::Patch(content.as_bytes().to_vec()),
        base_commit: None,
        message_id: None,
    }
}

/// Orders mails given as part, of, version, and whether their diffs differ.
pub(crate) fn order(words: &[Vec<(u32, u32, u32, bool)>]) -> Result<(), TestCaseError> {
    let given: Vec<Vec<Mail>> = words
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
                    a_mail(&subject, &content)
                })
                .collect()
        })
        .collect();
    let all: Vec<Mail> = given.iter().flatten().cloned().collect();
    let Ok(ordered) = order::arrange(given) else {
        return Ok(());
    };
    // Everything came out, but for copies.
    for mail in &all {
        prop_assert!(ordered.mails.contains(mail), "{mail} is lost");
    }
    // Each part stands after the one before it.
    if all.len() > 1 {
        for (index, mail) in ordered.mails.iter().enumerate() {
            if let Some(number) = mail.prefix.number.filter(|number| number.of > 1) {
                prop_assert!(1 <= number.part && number.part <= number.of);
                let before = index
                    .checked_sub(1)
                    .and_then(|index| ordered.mails.get(index));
                let before = before.and_then(|mail| mail.prefix.number);
                if number.part > 1 && ordered.mails.len() > 1 {
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
    let mut first: Vec<Mail> = order
        .iter()
        .map(|part| {
            a_mail(
                &format!("[PATCH {part:02}/{of}] p{part}"),
                &part.to_string(),
            )
        })
        .collect();
    let second = first.split_off(cut);
    let ordered = order::arrange(vec![first, second]).map_err(TestCaseError::fail)?;
    let parts: Vec<u32> = ordered
        .mails
        .iter()
        .filter_map(|mail| Some(mail.prefix.number?.part))
        .collect();
    prop_assert_eq!(
        parts,
        (1..=u32::try_from(of).unwrap_or(0)).collect::<Vec<_>>()
    );
    Ok(())
}
