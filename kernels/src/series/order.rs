//! The order of a series: by its `n/m`, whatever the order of the files and mails.
//!
//! Pure. What is not exactly one whole series, or several one after the other, is
//! refused: applied in part it would give a verdict about something else.

use std::collections::BTreeMap;

use super::letter::{Content, Letter};

/// The patches in their order.
#[derive(Debug, Default)]
pub(crate) struct Ordered {
    pub(crate) letters: Vec<Letter>,
    pub(crate) notes: Vec<String>,
}

/// A series' name: its version and its number of parts.
type Key = (String, u32);

/// Orders the patches of all words; those that are none are left out. An error is a
/// sentence.
pub(crate) fn arrange(words: Vec<Vec<Letter>>) -> Result<Ordered, String> {
    let mut ordered = Ordered::default();
    let mut words: Vec<Vec<Letter>> = words
        .into_iter()
        .map(|letters| {
            let patches = letters
                .into_iter()
                .filter(|letter| matches!(letter.content, Content::Patch(_)))
                .collect();
            without_copies(patches, &mut ordered.notes)
        })
        .collect();
    let count: usize = words.iter().map(Vec::len).sum();
    for letters in &words {
        one_series(letters)?;
    }
    // A word that is not whole by itself is pooled with the others of its series.
    let mut pooled: Vec<Vec<Letter>> = Vec::new();
    let mut pools: BTreeMap<Key, usize> = BTreeMap::new();
    for letters in words.drain(..) {
        match letters.first().and_then(key) {
            Some(key) if !whole(&letters) => match pools.get(&key) {
                Some(place) => pooled[*place].extend(letters),
                None => {
                    pools.insert(key, pooled.len());
                    pooled.push(letters);
                }
            },
            _ => pooled.push(letters),
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
    for mut letters in pooled {
        let lone = count == 1;
        letters = without_copies(letters, &mut ordered.notes);
        let sorted = letters.is_sorted_by_key(|letter| letter.tag.number);
        if let Some((_, of)) = letters.first().and_then(key) {
            complete(&mut letters, of, lone, &mut ordered.notes)?;
            if !sorted {
                ordered
                    .notes
                    .push("the patches are not in the order of their numbers: sorted".to_owned());
            }
        }
        ordered.letters.extend(letters);
    }
    Ok(ordered)
}

/// The series that a letter is a part of; `None` if it is by itself.
fn key(letter: &Letter) -> Option<Key> {
    let number = letter.tag.number?;
    (number.of > 1 || number.part > 1).then(|| (letter.tag.version.clone(), number.of))
}

/// Drops what arrived twice: the same part with the same diff.
fn without_copies(letters: Vec<Letter>, notes: &mut Vec<String>) -> Vec<Letter> {
    let mut kept: Vec<Letter> = Vec::new();
    for letter in letters {
        let copy = kept.iter().find(|other| {
            letter.subject.is_some() && other.tag == letter.tag && other.diff() == letter.diff()
        });
        match copy {
            Some(first) => notes.push(format!("{letter} is a copy of {first}: passed over")),
            None => kept.push(letter),
        }
    }
    kept
}

/// Refuses a word that holds more than one series, or a series and something else.
fn one_series(letters: &[Letter]) -> Result<(), String> {
    let Some(first) = letters.iter().find(|letter| key(letter).is_some()) else {
        return Ok(());
    };
    for letter in letters {
        match key(letter) {
            key if key == self::key(first) => {}
            Some((version, _)) if version != first.tag.version => {
                return Err(two_versions(first, letter));
            }
            Some(_) => {
                return Err(format!(
                    "two series are in one place: {first} and {letter} are parts of different \
                     ones; give each its own file"
                ));
            }
            None => {
                return Err(format!(
                    "{letter} is no part of the series that {first} belongs to; take it out, or \
                     give it as a file of its own"
                ));
            }
        }
    }
    Ok(())
}

fn two_versions(first: &Letter, second: &Letter) -> String {
    format!(
        "two versions of a series are given: {first} is of v{}, {second} of v{}; leave one out",
        first.tag.version, second.tag.version
    )
}

fn whole(letters: &[Letter]) -> bool {
    let mut parts: Vec<u32> = letters
        .iter()
        .filter_map(|letter| Some(letter.tag.number?.part))
        .collect();
    parts.sort_unstable();
    let of = letters
        .first()
        .and_then(|letter| letter.tag.number)
        .map_or(0, |number| number.of);
    parts.into_iter().eq(1..=of)
}

/// Sorts a series' parts and tells the first thing that keeps it from being whole.
fn complete(
    letters: &mut [Letter],
    of: u32,
    lone: bool,
    notes: &mut Vec<String>,
) -> Result<(), String> {
    letters.sort_by_key(|letter| letter.tag.number);
    let part = |letter: &Letter| letter.tag.number.map_or(0, |number| number.part);
    for letter in letters.iter() {
        if !(1..=of).contains(&part(letter)) {
            return Err(format!(
                "{letter} is patch {} of {of}: there is no such part",
                part(letter)
            ));
        }
    }
    if let Some([first, second]) = letters
        .windows(2)
        .find(|pair| part(&pair[0]) == part(&pair[1]))
    {
        return Err(format!(
            "patch {} of {of} is there twice, and they differ: {first} and {second}; leave one out",
            part(first)
        ));
    }
    let missing: Vec<u32> = (1..=of)
        .filter(|number| letters.iter().all(|letter| part(letter) != *number))
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    if lone {
        notes.push(format!(
            "{} is patch {} of {of}, and the others are not given: it is used by itself",
            letters[0],
            part(&letters[0])
        ));
        return Ok(());
    }
    let series = letters.first().map(Letter::to_string).unwrap_or_default();
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
    use crate::series::tag::Tag;

    fn letters(subjects: &[&str]) -> Vec<Letter> {
        subjects
            .iter()
            .enumerate()
            .map(|(index, subject)| Letter {
                path: "x.mbox".into(),
                mail: Some(index + 1),
                subject: Some((*subject).to_owned()),
                tag: Tag::parse(subject),
                content: Content::Patch(subject.as_bytes().to_vec()),
                base_commit: None,
            })
            .collect()
    }

    #[track_caller]
    fn order(words: &[&[&str]]) -> Result<(String, Vec<String>), String> {
        let ordered = arrange(words.iter().map(|word| letters(word)).collect())?;
        let titles: Vec<String> = ordered
            .letters
            .into_iter()
            .map(|letter| letter.tag.title)
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
