//! The kernels that a scenario applies to: those of the release that introduced what it is
//! about, and later ones.
//!
//! The kernel's release alone decides, so that the answer is known when tests are listed. If a
//! kernel lacks something that its release should have, the run shows it: a missing value makes
//! the verdict inconclusive.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A kernel release, as far as features depend on it: `v6.12`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Release {
    major: u32,
    minor: u32,
}

/// The first release that has what a scenario is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Since {
    /// The first release to which the scenario applies.
    pub release: Release,
    /// What it introduced.
    pub because: String,
}

/// A scenario that does not apply to a kernel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DoesNotApply {
    /// `suite/scenario`.
    pub scenario: String,
    /// The kernel's release, as the kernel reports it.
    pub release: String,
    /// Why.
    pub because: String,
}

impl Release {
    /// Parses the form of a scenario: `v6.12`.
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

    /// Parses the form of a kernel: `6.12.117`, `6.1.0-49-amd64`, `7.2-rc1`.
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
    /// Why a scenario does not apply to a kernel of this release; `None` if it does, or if the
    /// release cannot be parsed: then the run itself shows it.
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
