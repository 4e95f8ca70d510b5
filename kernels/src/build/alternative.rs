//! Which source a kernel is made of: the one that its definition names, or, where that is a
//! package which this machine cannot have, the alternative.
//!
//! It is never chosen silently: a note says so each time, and the kernel's name and
//! provenance tell it. A package that could be had, but not now, is an error as ever.

use super::context::Builder;
use crate::error::KernelError;
use crate::progress::BuildEvent;
use crate::source::{Fetcher, Identity, Opened, SourceError};
use crate::spec::{Recipe, Source};

/// A source, identified.
pub(super) struct Chosen<'a> {
    pub(super) source: &'a Source,
    pub(super) identity: Identity,
    /// Its tree, if it had to be opened to be identified.
    pub(super) opened: Option<Opened>,
    /// The name of a kernel that is made of it.
    pub(super) name: String,
}

impl Builder<'_> {
    /// Opens the source of a kernel, fetching it if the cache does not have it.
    pub(super) fn open(&self, name: &str, recipe: &Recipe) -> Result<Opened, KernelError> {
        let fetcher = self.fetcher();
        let chosen = self.choose(name, recipe, &fetcher)?;
        match chosen.opened {
            Some(opened) => Ok(opened),
            None => Ok(fetcher.open(chosen.source)?),
        }
    }

    pub(super) fn choose<'a>(
        &self,
        name: &str,
        recipe: &'a Recipe,
        fetcher: &Fetcher<'_>,
    ) -> Result<Chosen<'a>, KernelError> {
        let chosen = |source: &'a Source, name: String| {
            let (identity, opened) = fetcher.identify(source)?;
            Ok(Chosen {
                source,
                identity,
                opened,
                name,
            })
        };
        let instead = |alternative: &'a Source, why: &str| {
            let Source::Url { url, .. } = alternative else {
                // Definitions allow no other.
                return chosen(alternative, name.to_owned());
            };
            let note = format!("{name}: {why}; its alternative is used: {url}");
            self.progress.event(BuildEvent::Note(&note));
            chosen(
                alternative,
                format!("{name}={}", crate::spec::name_in_url(url)),
            )
        };
        if let (Some(alternative), Source::Debian(package)) = (&recipe.alternative, &recipe.source)
            && fetcher.has(alternative)
            && !fetcher.has(&recipe.source)
        {
            // What was found out then is not asked again for each kernel.
            let why = format!("the package {package} could not be had when it was fetched");
            return instead(alternative, &why);
        }
        match (fetcher.identify(&recipe.source), &recipe.alternative) {
            (Ok((identity, opened)), _) => Ok(Chosen {
                source: &recipe.source,
                identity,
                opened,
                name: name.to_owned(),
            }),
            (Err(SourceError::NoApt { package }), Some(alternative)) => {
                let why = format!("there is no apt-get here to fetch the package {package}");
                instead(alternative, &why)
            }
            (Err(SourceError::NoPackage { package, .. }), Some(alternative)) => {
                instead(alternative, &format!("apt has no package {package}"))
            }
            (Err(error), _) => Err(error.into()),
        }
    }
}
