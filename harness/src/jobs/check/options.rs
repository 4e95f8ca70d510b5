//! What a check is made of, and the kernels that its patches make.

use std::path::Path;

use camino::Utf8Path;
use numalab_kernels::patch::Touched;
use numalab_kernels::spec::{Direction, Origin, Patch};
use numalab_kernels::{KernelSpec, Series};

use super::report::{PatchId, SeriesId};
use super::selection::Selected;
use crate::error::Error;
use crate::jobs::comparison::TestMatrix;

/// What is checked, and how.
#[derive(Debug, Clone, Copy)]
pub struct CheckOptions<'a> {
    /// The kernel without the series.
    pub base: &'a KernelSpec,
    /// The series.
    pub series: &'a Series,
    /// What the series touches.
    pub touched: &'a Touched,
    /// Which scenarios are run, and how.
    pub matrix: TestMatrix<'a>,
    /// Why each scenario was selected; empty if all are run.
    pub selected: &'a [Selected],
    /// Checks each patch on top of those before it, too.
    pub each: bool,
    /// Runs the scenarios on debug kernels, too.
    pub debug: bool,
    /// Counts how often the changed lines run.
    pub coverage: bool,
    /// Looks for the first trace event in which the kernels differ.
    pub trace: bool,
    /// Accepts a check in which no scenario runs a changed line.
    pub allow_unexercised: bool,
    /// The folder for the report instead of a new one.
    pub folder: Option<&'a Utf8Path>,
    /// The command that repeats the check.
    pub repeat: &'a str,
}

impl CheckOptions<'_> {
    /// The base with the patches of these numbers.
    pub(super) fn patched(&self, numbers: &[usize]) -> Result<KernelSpec, Error> {
        let mut spec = self.base.clone();
        let Origin::Recipe(recipe) = &mut spec.origin else {
            let word = self.base.word.clone();
            return Err(Error::Unpatchable { word });
        };
        let patches = &self.series.patches;
        let added = numbers.iter().map(|number| patches[number - 1].clone());
        recipe.patches.extend(added);
        // The definition's known failures are the base's alone.
        spec.expected.clear();
        let part = match numbers {
            _ if numbers.len() == patches.len() => String::new(),
            [first, .., last] if last - first + 1 == numbers.len() => format!(":{first}-{last}"),
            _ => {
                let numbers: Vec<String> = numbers.iter().map(ToString::to_string).collect();
                format!(":{}", numbers.join(","))
            }
        };
        let sign = if self.is_revert() { "+revert-" } else { "+" };
        spec.name = format!("{}{sign}{}{part}", spec.name, self.series.name);
        spec.word = self.word(numbers).unwrap_or_default();
        Ok(spec)
    }

    /// The kernel spec that means the base with these patches; `None` if there is none, since
    /// a spec names whole files.
    fn word(&self, numbers: &[usize]) -> Option<String> {
        let patches = &self.series.patches;
        let is_whole = numbers.len() == patches.len();
        let mut word = self.base.word.clone();
        let mut given: Vec<&Path> = Vec::new();
        let mut chosen: Vec<&Patch> = numbers.iter().map(|number| &patches[number - 1]).collect();
        if self.is_revert() {
            // A spec names them in their own order and reverts them in the other.
            chosen.reverse();
        }
        for patch in chosen {
            if patch.mail.is_some() && !is_whole {
                return None;
            }
            if !given.contains(&patch.path.as_path()) {
                given.push(&patch.path);
                let sign = match patch.direction {
                    Direction::Apply => "+",
                    Direction::Revert => "+revert:",
                };
                let path = std::path::absolute(&patch.path).ok()?;
                if !path.exists() {
                    return None;
                }
                word.push_str(&format!("{sign}{}", path.display()));
            }
        }
        Some(word)
    }

    fn is_revert(&self) -> bool {
        let mut patches = self.series.patches.iter();
        patches.any(|patch| patch.direction == Direction::Revert)
    }

    pub(super) fn series_id(&self) -> SeriesId {
        let series = self.series;
        SeriesId {
            name: series.name.clone(),
            title: series.title.clone(),
            reverted: self.is_revert(),
            patches: (1..=series.patches.len())
                .map(|number| self.patch_id(number))
                .collect(),
            notes: series.notes.clone(),
        }
    }

    pub(super) fn patch_id(&self, number: usize) -> PatchId {
        let patch = &self.series.patches[number - 1];
        PatchId {
            number,
            of: self.series.patches.len(),
            subject: patch.subject.clone().unwrap_or_else(|| patch.name()),
            file: patch.name(),
            digest: patch.digest().to_string(),
        }
    }
}
