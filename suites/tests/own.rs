//! A kernel of somebody's own: every scenario compared between `NUMALAB_BASE` and
//! `NUMALAB_KERNEL`, any kernels in the words of the command line.

use std::sync::Arc;

use libtest_mimic::Trial;
use miette::miette;
use numalab::compare::Word;
use numalab::comparison::{self, Sides};
use numalab::lab::Limits;
use numalab::machine::mode::AcceleratorChoice;
use numalab::report::text;
use numalab::run::Stand;
use numalab::ui::Ui;
use tokio_util::sync::CancellationToken;

use crate::{Bench, block_on, name};

/// Two kernels of the user's.
#[derive(Debug, Clone)]
pub(crate) struct Own {
    base: String,
    kernel: String,
}

impl Own {
    /// The kernels that the environment names; the base is `linux-6.12` unless said.
    pub(crate) fn from_environment() -> Option<Own> {
        let variable = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
        let kernel = variable("NUMALAB_KERNEL")?;
        let base = variable("NUMALAB_BASE").unwrap_or_else(|| "linux-6.12".into());
        Some(Own { base, kernel })
    }

    /// One test a scenario and mode.
    pub(crate) fn trials(self, bench: &Arc<Bench>) -> miette::Result<Vec<Trial>> {
        // A misspelt kernel fails the list, and not every test.
        let kernel = bench.lab.wanted(&self.kernel)?;
        bench.lab.wanted(&self.base)?;
        let mut trials = Vec::new();
        for index in 0..bench.scenarios.len() {
            for live in [false, true] {
                let mut variant = plain(&kernel.name);
                if live {
                    variant.push_str("::live");
                }
                let (bench, own) = (Arc::clone(bench), self.clone());
                let name = name(&bench.scenarios[index], &variant);
                trials.push(Trial::test(name, move || {
                    block_on(
                        |cancel| async move { own.compare(&bench, index, live, &cancel).await },
                    )
                }));
            }
        }
        Ok(trials)
    }

    async fn compare(
        &self,
        bench: &Bench,
        index: usize,
        live: bool,
        cancel: &CancellationToken,
    ) -> miette::Result<()> {
        let (lab, ui) = (&bench.lab, Ui::new(false));
        let (base, kernel) = (lab.wanted(&self.base)?, lab.wanted(&self.kernel)?);
        let checked = Stand::check(lab, live, AcceleratorChoice::Auto)?;
        let sides = Sides::build(lab, &base, &kernel, Limits::default(), &ui, cancel)?;
        let request = comparison::Request {
            scenarios: &bench.scenarios[index..=index],
            seeds: &[1, 2, 3],
            shift: None,
            append: &[],
            // The test runner already runs as many guests as fit.
            jobs: Some(1),
        };
        let scenario = &bench.scenarios[index].name;
        let repeat = format!("numalab compare {} {} {scenario}", self.base, self.kernel);
        let (report, folder) =
            comparison::run(lab, checked, &sides, &request, repeat, &ui, cancel).await?;
        let words = report.scenarios.iter().map(|compared| compared.word);
        let word = report
            .overall
            .as_ref()
            .map(|overall| overall.word)
            .or(words.min());
        let text = format!("{}report: {folder}", text::comparison(&report));
        match word {
            Some(Word::Broken | Word::Unclear) | None => {
                let word = word.map_or("nothing was compared".into(), |word| word.to_string());
                Err(miette!("{word}\n{text}"))
            }
            Some(_) => {
                println!("{text}");
                Ok(())
            }
        }
    }
}

/// A name that nextest's filters take without quoting.
fn plain(name: &str) -> String {
    let name = name.rsplit('/').next().unwrap_or(name).to_ascii_lowercase();
    name.chars()
        .map(|c| {
            if c.is_ascii_alphanumeric() || "_.=-".contains(c) {
                c
            } else {
                '-'
            }
        })
        .collect()
}
