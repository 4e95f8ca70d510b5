//! The order of a series: by its `n/m`, whatever the order of the files and mails.
//!
//! Pure. What is not exactly one whole series, or several one after the other, is
//! refused: applied in part it would give a verdict about something else.

use std::collections::BTreeMap;

use super::mail::Mail;

/// The patches in their order.
#[derive(Debug, Default)]
pub(crate) struct Ordered {
    pub(crate) mails: Vec<Mail>,
    pub(crate) notes: Vec<String>,
}

/// A series' name: its version and its number of parts.
type Key = (String, u32);

/// Orders the patches of all words; those that are none are left out. An error is a
/// sentence.
pub(crate) fn arrange(words: Vec<Vec<Mail>>) -> Result<Ordered, String> {
    let mut ordered = Ordered::default();
    let mut words: Vec<Vec<Mail>> = words
        .into_iter()
        .map(|mails| {
            let patches = mails.into_iter().filter(|mail| mail.is_patch()).collect();
            without_copies(patches, &mut ordered.notes)
        })
        .collect();
    let count: usize = words.iter().map(Vec::len).sum();
    let unreadable = |mail: &&Mail| mail.prefix.unreadable.is_some();
    if count > 1
        && let Some(mail) = words.iter().flatten().find(unreadable)
    {
        return Err(format!(
            "{mail} has the number {}, which names no part of a series; write it as 1/3 in its \
             subject",
            mail.prefix.unreadable.as_deref().unwrap_or_default()
        ));
    }
    for mails in &words {
        one_series(mails)?;
    }
    // A word that is not whole by itself is pooled with the others of its series.
    let mut pooled: Vec<Vec<Mail>> = Vec::new();
    let mut pools: BTreeMap<Key, usize> = BTreeMap::new();
    for mails in words.drain(..) {
        match mails.first().and_then(key) {
            Some(key) if !whole(&mails) => match pools.get(&key) {
                Some(place) => pooled[*place].extend(mails),
                None => {
                    pools.insert(key, pooled.len());
                    pooled.push(mails);
                }
            },
            _ => pooled.push(mails),
        }
    }
    let mut broken = pools.keys();
    if let (Some(first), Some(second)) = (broken.next(), broken.next())
        && first.0 != second.0
    {
        return Err(two_versions(
            &pooled[pools[first]][0],
            &pooled[pools[second]][0],
        ));
    }
    for mut mails in pooled {
        let lone = count == 1;
        mails = without_copies(mails, &mut ordered.notes);
        let sorted = mails.is_sorted_by_key(|mail| mail.prefix.number);
        if let Some((_, of)) = mails.first().and_then(key) {
            complete(&mut mails, of, lone, &mut ordered.notes)?;
            if !sorted {
                ordered
                    .notes
                    .push("the patches are not in the order of their numbers: sorted".to_owned());
            }
        }
        ordered.mails.extend(mails);
    }
    Ok(ordered)
}

/// The series that a mail is a part of; `None` if it is by itself.
fn key(mail: &Mail) -> Option<Key> {
    let number = mail.prefix.number?;
    (number.of > 1 || number.part > 1).then(|| (mail.prefix.version.clone(), number.of))
}

/// Drops what arrived twice: the same part with the same diff.
fn without_copies(mails: Vec<Mail>, notes: &mut Vec<String>) -> Vec<Mail> {
    let mut kept: Vec<Mail> = Vec::new();
    for mail in mails {
        let copy = kept.iter().find(|other| mail.is_copy_of(other));
        match copy {
            Some(first) => notes.push(format!("{mail} is a copy of {first}: ignored")),
            None => kept.push(mail),
        }
    }
    kept
}

/// Refuses a word that holds more than one series, or a series and something else.
fn one_series(mails: &[Mail]) -> Result<(), String> {
    let Some(first) = mails.iter().find(|mail| key(mail).is_some()) else {
        return Ok(());
    };
    for mail in mails {
        match key(mail) {
            key if key == self::key(first) => {}
            Some((version, _)) if version != first.prefix.version => {
                return Err(two_versions(first, mail));
            }
            Some(_) => {
                return Err(format!(
                    "two series are in one place: {first} and {mail} are parts of different \
                     ones; give each its own file"
                ));
            }
            None => {
                return Err(format!(
                    "{mail} is no part of the series that {first} belongs to; take it out, or \
                     give it as a file of its own"
                ));
            }
        }
    }
    Ok(())
}

fn two_versions(first: &Mail, second: &Mail) -> String {
    format!(
        "two versions of a series are given: {first} is of v{}, {second} of v{}; leave one out",
        first.prefix.version, second.prefix.version
    )
}

fn whole(mails: &[Mail]) -> bool {
    let mut parts: Vec<u32> = mails
        .iter()
        .filter_map(|mail| Some(mail.prefix.number?.part))
        .collect();
    parts.sort_unstable();
    let of = mails
        .first()
        .and_then(|mail| mail.prefix.number)
        .map_or(0, |number| number.of);
    parts.into_iter().eq(1..=of)
}

/// Sorts a series' parts and tells the first thing that keeps it from being whole.
fn complete(
    mails: &mut [Mail],
    of: u32,
    lone: bool,
    notes: &mut Vec<String>,
) -> Result<(), String> {
    mails.sort_by_key(|mail| mail.prefix.number);
    let part = |mail: &Mail| mail.prefix.number.map_or(0, |number| number.part);
    for mail in mails.iter() {
        if !(1..=of).contains(&part(mail)) {
            return Err(format!(
                "{mail} is patch {} of {of}: there is no such part",
                part(mail)
            ));
        }
    }
    if let Some([first, second]) = mails
        .windows(2)
        .find(|pair| part(&pair[0]) == part(&pair[1]))
    {
        return Err(format!(
            "patch {} of {of} is there twice, and they differ: {first} and {second}; leave one out",
            part(first)
        ));
    }
    let missing: Vec<u32> = (1..=of)
        .filter(|number| mails.iter().all(|mail| part(mail) != *number))
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    if lone {
        notes.push(format!(
            "{} is patch {} of {of}, and the others are not given: it is used by itself",
            mails[0],
            part(&mails[0])
        ));
        return Ok(());
    }
    let series = mails.first().map(Mail::to_string).unwrap_or_default();
    Err(format!(
        "{} of {of} {} missing: the series of {series} is not whole",
        numbers(&missing),
        if missing.len() == 1 { "is" } else { "are" }
    ))
}

/// `patch 2`, `patches 2, 5 and 7`.
fn numbers(parts: &[u32]) -> String {
    let words: Vec<String> = parts.iter().map(u32::to_string).collect();
    match &words[..] {
        [one] => format!("patch {one}"),
        [most @ .., last] => format!("patches {} and {last}", most.join(", ")),
        [] => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::series::mail::Content;
    use crate::series::subject_prefix::SubjectPrefix;

    fn mails(subjects: &[&str]) -> Vec<Mail> {
        subjects
            .iter()
            .enumerate()
            .map(|(index, subject)| Mail {
                path: "x.mbox".into(),
                mail: Some(index + 1),
                subject: Some((*subject).to_owned()),
                prefix: SubjectPrefix::parse(subject),
                content: Content::Patch(subject.as_bytes().to_vec()),
                base_commit: None,
                message_id: None,
            })
            .collect()
    }

    #[track_caller]
    fn order(words: &[&[&str]]) -> Result<(String, Vec<String>), String> {
        let ordered = arrange(words.iter().map(|word| mails(word)).collect())?;
        let titles: Vec<String> = ordered
            .mails
            .into_iter()
            .map(|mail| mail.prefix.title)
            .collect();
        Ok((titles.join(" "), ordered.notes))
    }

    #[test]
    fn a_series_is_ordered_by_its_numbers() {
        let (order, notes) =
            order(&[&["[PATCH 2/3] b", "[PATCH 3/3] c", "[PATCH 1/3] a"]]).unwrap();
        assert_eq!(order, "a b c");
        assert_eq!(
            notes,
            ["the patches are not in the order of their numbers: sorted"]
        );
    }

    #[test]
    fn more_than_nine_parts_are_ordered_as_numbers() {
        let subjects: Vec<String> = [10, 2, 1, 11, 3, 4, 5, 6, 7, 8, 9]
            .iter()
            .map(|part| format!("[PATCH v3 {part:02}/11] p{part}"))
            .collect();
        let subjects: Vec<&str> = subjects.iter().map(String::as_str).collect();
        let (order, _) = order(&[&subjects]).unwrap();
        assert_eq!(order, "p1 p2 p3 p4 p5 p6 p7 p8 p9 p10 p11");
    }

    #[test]
    fn files_that_are_parts_of_one_series_are_one_and_others_stay_where_they_are() {
        let cases: [(&[&[&str]], &str); 5] = [
            (&[&["[PATCH 2/2] b"], &["[PATCH 1/2] a"]], "a b"),
            (&[&["[PATCH] x"], &["[PATCH] a"]], "x a"),
            (
                &[
                    &["[PATCH 1/2] c", "[PATCH 2/2] d"],
                    &["[PATCH 1/2] a", "[PATCH 2/2] b"],
                ],
                "c d a b",
            ),
            (
                &[&["[PATCH 2/2] b"], &["[PATCH] x"], &["[PATCH 1/2] a"]],
                "a b x",
            ),
            (&[&["[PATCH 1/1] x", "[PATCH 1/1] y"]], "x y"),
        ];
        for (words, expected) in cases {
            assert_eq!(order(words).unwrap().0, expected, "{words:?}");
        }
    }

    #[test]
    fn what_is_not_whole_is_refused_and_says_what_is_wrong() {
        let cases: [(&[&[&str]], &str); 8] = [
            (
                &[&["[PATCH 1/3] a", "[PATCH 2/3] b"]],
                "patch 3 of 3 is missing: the series of mail 1 of \"x.mbox\" (\"[PATCH 1/3] a\") is not \
                 whole",
            ),
            (
                &[&["[PATCH 2/4] b", "[PATCH 2/4] b"], &["[PATCH 3/4] c"]],
                "patches 1 and 4 of 4 are missing",
            ),
            (
                &[&["[PATCH 1/2] a", "[PATCH 2/2] b", "[PATCH 2/2] c"]],
                "patch 2 of 2 is there twice, and they differ: mail 2 of \"x.mbox\" (\"[PATCH 2/2] b\") \
                 and mail 3",
            ),
            (
                &[&["[PATCH 1/2] a", "[PATCH v2 1/2] a", "[PATCH v2 2/2] b"]],
                "two versions of a series are given: mail 1 of \"x.mbox\" (\"[PATCH 1/2] a\") is of v1, \
                 mail 2 of \"x.mbox\" (\"[PATCH v2 1/2] a\") of v2",
            ),
            (
                &[&["[PATCH v3 1/2] a"], &["[PATCH v2 2/2] b"]],
                "two versions of a series are given",
            ),
            (
                &[&["[PATCH 1/2] a", "[PATCH 2/2] b", "[PATCH 1/3] c"]],
                "two series are in one place",
            ),
            (
                &[&["[PATCH 1/2] a", "[PATCH 2/2] b", "[PATCH] fix"]],
                "mail 3 of \"x.mbox\" (\"[PATCH] fix\") is no part of the series",
            ),
            (
                &[&["[PATCH 3/2] a", "[PATCH 1/2] b"]],
                "there is no such part",
            ),
        ];
        for (words, expected) in cases {
            let said = order(words).unwrap_err();
            assert!(said.contains(expected), "{words:?}: {said}");
        }
    }

    #[test]
    fn a_copy_is_passed_over_and_a_lone_part_is_used_and_told() {
        let (order_, notes) =
            order(&[&["[PATCH 1/2] a", "[PATCH 2/2] b", "[PATCH 1/2] a"]]).unwrap();
        assert_eq!(order_, "a b");
        assert!(notes[0].contains("mail 3") && notes[0].contains("is a copy of mail 1"));
        let (order_, notes) = order(&[&["[PATCH 6/6] f"]]).unwrap();
        assert_eq!(order_, "f");
        assert!(notes[0].contains("is patch 6 of 6, and the others are not given"));
    }
}
