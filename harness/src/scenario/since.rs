//! To which kernels a scenario applies: those of the release that brought what it is about,
//! and later ones.
//!
//! It is declared, and decided by a kernel's release alone, so that it is known when tests
//! are listed. What a kernel lacks although its release says otherwise shows in a run: a
//! value that is missing makes the verdict inconclusive.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A kernel release as far as features come with one: `v6.12`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Release {
    major: u32,
    minor: u32,
}

/// Since when the kernel has what a scenario is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Since {
    /// The first release to which the scenario applies.
    pub release: Release,
    /// What came with it.
    pub because: String,
}

/// That a scenario does not apply to a kernel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DoesNotApply {
    /// `suite/scenario`.
    pub scenario: String,
    /// The kernel's release, as it tells it.
    pub release: String,
    /// Why.
    pub because: String,
}

impl Release {
    /// Reads what a scenario says: `v6.12`.
    pub(super) fn parse(text: &str) -> Result<Release, String> {
        let release = text.strip_prefix('v').and_then(|rest| {
            let (major, minor) = rest.split_once('.')?;
            Some(Release {
                major: number(major)?,
                minor: number(minor)?,
            })
        });
        release.ok_or_else(|| format!("{text:?} is no release such as v6.12"))
    }

    /// Reads what a kernel says: `6.12.117`, `6.1.0-49-amd64`, `7.2-rc1`. `None` if that is
    /// no release.
    pub fn of_kernel(text: &str) -> Option<Release> {
        let (major, rest) = text.split_once('.')?;
        let minor = rest
            .split(|c: char| !c.is_ascii_digit())
            .next()
            .unwrap_or_default();
        Some(Release {
            major: number(major)?,
            minor: number(minor)?,
        })
    }
}

fn number(text: &str) -> Option<u32> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| text.parse().ok()).flatten()
}

impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "v{}.{}", self.major, self.minor)
    }
}

impl Since {
    /// Why a scenario does not apply to a kernel that tells this release; `None` if it does,
    /// or if the release cannot be read: then the run itself has to tell.
    pub fn excludes(&self, release: &str) -> Option<String> {
        let Since {
            release: first,
            because,
        } = self;
        (Release::of_kernel(release)? < *first)
            .then(|| format!("it is about {first} and later: {because}"))
    }
}

impl fmt::Display for DoesNotApply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let DoesNotApply {
            scenario,
            release,
            because,
        } = self;
        write!(f, "{scenario} does not apply to {release}: {because}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_are_compared_as_numbers() {
        let since = |text| Since {
            release: Release::parse(text).unwrap(),
            because: "it came".to_owned(),
        };
        for (first, release, applies) in [
            ("v6.4", "6.1.192", false),
            ("v6.4", "6.4.0-rc1", true),
            ("v6.4", "6.12.117", true),
            ("v6.10", "6.9.12-arch1", false),
            ("v6.12", "7.2.12", true),
            ("v7.0", "6.19.1", false),
            ("v6.12", "6.12-rc1+", true),
            ("v6.12", "unknown", true),
        ] {
            assert_eq!(
                since(first).excludes(release).is_none(),
                applies,
                "{release}"
            );
        }
        assert_eq!(
            since("v6.4").excludes("6.1.192").unwrap(),
            "it is about v6.4 and later: it came"
        );
    }

    #[test]
    fn a_release_is_written_like_its_tag() {
        for wrong in [
            "6.12",
            "v6",
            "v6.12.1",
            "v6.",
            "v6.x",
            "v+6.1",
            "v6.12-rc1",
            "",
        ] {
            let problem = Release::parse(wrong).unwrap_err();
            assert!(problem.contains("such as v6.12"), "{problem}");
        }
    }
}
