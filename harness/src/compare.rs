//! Comparisons: the verdicts of two kernels, scenario by scenario.
//!
//! Each side is judged over several seeds and must be unanimous. Kernels of different code
//! run different instruction streams, so a counter that merely moved is never shown as the
//! patch's effect: only verdicts are compared.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::verdict::{Judgement, Verdict};

/// What a patch does to a scenario.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Word {
    /// `pass` before, and not so after: `fail`, or it does not build, boot or stay clean.
    Broken,
    /// No unanimous answer on one side.
    Unclear,
    /// `fail` on both.
    StillFailing,
    /// `fail`, then `pass`.
    Fixed,
    /// `pass` on both.
    Holds,
    /// The images are the same bytes.
    ChangesNothing,
    /// The scenario is about something that came later than one of the kernels. It was not
    /// run, and counts for nothing.
    DoesNotApply,
}

impl fmt::Display for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Word::Broken => "broken",
            Word::Unclear => "unclear",
            Word::StillFailing => "still failing",
            Word::Fixed => "fixed",
            Word::Holds => "holds",
            Word::ChangesNothing => "changes nothing",
            Word::DoesNotApply => "does not apply",
        })
    }
}

/// What one kernel did in all repetitions of one scenario.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side<'a> {
    /// Every repetition was clean and judged so.
    Unanimous(Verdict),
    /// Every repetition was clean, and they were judged differently.
    Split,
    /// Every repetition shows something that is the kernel's doing and must not be.
    Unclean(&'a str),
    /// Some repetitions were not clean, or it is not certain that it is the kernel's doing.
    Doubtful,
}

impl Side<'_> {
    /// Sums up repetitions.
    pub fn of(judgements: &[Judgement]) -> Side<'_> {
        let Some(first) = judgements.first() else {
            return Side::Doubtful;
        };
        let certain = |judgement: &Judgement| judgement.unclean.as_ref().is_some_and(|u| u.certain);
        if judgements.iter().all(certain) {
            return Side::Unclean(first.unclean.as_ref().map_or("", |unclean| &unclean.what));
        }
        if judgements
            .iter()
            .any(|judgement| judgement.unclean.is_some())
        {
            return Side::Doubtful;
        }
        if judgements
            .iter()
            .all(|judgement| judgement.verdict == first.verdict)
        {
            Side::Unanimous(first.verdict)
        } else {
            Side::Split
        }
    }
}

/// The word for a scenario, from what both kernels did.
pub fn word(base: Side<'_>, patched: Side<'_>) -> Word {
    use Verdict::{Fail, Pass};
    match (base, patched) {
        (Side::Unanimous(Pass), Side::Unanimous(Pass)) => Word::Holds,
        (Side::Unanimous(Pass), Side::Unanimous(Fail)) => Word::Broken,
        (Side::Unanimous(Fail), Side::Unanimous(Pass)) => Word::Fixed,
        (Side::Unanimous(Fail), Side::Unanimous(Fail)) => Word::StillFailing,
        // The base boots and stays clean, and only the patched kernel crashes, hangs or
        // warns: that decides before any counter is looked at.
        (Side::Unanimous(_) | Side::Split, Side::Unclean(_)) => Word::Broken,
        _ => Word::Unclear,
    }
}

/// The exit code of a comparison: 1 if something is broken, else 3 if something is unclear,
/// else 0.
pub fn exit_code(words: impl IntoIterator<Item = Word>) -> u8 {
    match words
        .into_iter()
        .filter(|word| *word != Word::DoesNotApply)
        .min()
    {
        Some(Word::Broken) => 1,
        Some(Word::Unclear) => 3,
        // Nothing was compared: nothing is known.
        None => 3,
        Some(_) => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verdict::Unclean;

    fn judged(verdict: Verdict, unclean: Option<bool>) -> Judgement {
        let unclean = unclean.map(|certain| Unclean {
            certain,
            what: "a WARNING".into(),
        });
        Judgement {
            verdict,
            reasons: vec![],
            unclean,
            guards: vec![],
            expectations: vec![],
        }
    }

    #[test]
    fn a_side_must_be_unanimous() {
        let pass = judged(Verdict::Pass, None);
        let fail = judged(Verdict::Fail, None);
        assert_eq!(
            Side::of(&[pass.clone(), pass.clone()]),
            Side::Unanimous(Verdict::Pass)
        );
        assert_eq!(Side::of(&[pass.clone(), fail]), Side::Split);
        assert_eq!(Side::of(&[]), Side::Doubtful);
        let warned = judged(Verdict::Inconclusive, Some(true));
        assert_eq!(
            Side::of(&[warned.clone(), warned.clone()]),
            Side::Unclean("a WARNING")
        );
        assert_eq!(Side::of(&[warned, pass]), Side::Doubtful);
        let stuck = judged(Verdict::Inconclusive, Some(false));
        assert_eq!(Side::of(&[stuck]), Side::Doubtful);
    }

    #[test]
    fn words_follow_the_table() {
        use Side::{Doubtful, Split, Unanimous, Unclean};
        use Verdict::{Fail, Inconclusive, Pass};
        let table = [
            (Unanimous(Pass), Unanimous(Pass), Word::Holds),
            (Unanimous(Pass), Unanimous(Fail), Word::Broken),
            (Unanimous(Fail), Unanimous(Pass), Word::Fixed),
            (Unanimous(Fail), Unanimous(Fail), Word::StillFailing),
            (Unanimous(Pass), Unanimous(Inconclusive), Word::Unclear),
            (Unanimous(Inconclusive), Unanimous(Pass), Word::Unclear),
            (Unanimous(Pass), Split, Word::Unclear),
            (Unanimous(Pass), Unclean("x"), Word::Broken),
            (Unanimous(Fail), Unclean("x"), Word::Broken),
            (Unclean("x"), Unclean("x"), Word::Unclear),
            (Unclean("x"), Unanimous(Pass), Word::Unclear),
            (Unanimous(Inconclusive), Unclean("x"), Word::Broken),
            (Split, Unclean("x"), Word::Broken),
            (Doubtful, Unclean("x"), Word::Unclear),
            (Unanimous(Pass), Doubtful, Word::Unclear),
        ];
        for (base, patched, expected) in table {
            assert_eq!(word(base, patched), expected, "{base:?} -> {patched:?}");
        }
    }

    #[test]
    fn broken_wins_over_unclear() {
        assert_eq!(exit_code([Word::Unclear, Word::Broken, Word::Fixed]), 1);
        assert_eq!(exit_code([Word::Holds, Word::Unclear]), 3);
        assert_eq!(exit_code([Word::StillFailing, Word::Holds]), 0);
        assert_eq!(exit_code([]), 3);
        assert_eq!(exit_code([Word::DoesNotApply]), 3);
        assert_eq!(exit_code([Word::DoesNotApply, Word::Holds]), 0);
        assert_eq!(exit_code([Word::DoesNotApply, Word::Broken]), 1);
    }
}
