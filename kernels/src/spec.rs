//! A kernel that is wanted: everything that decides what it will be, read from its
//! files once. From here on no definition and no patch file is looked at again.

mod source;

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
pub use source::{Package, Source};
pub(crate) use source::{SourceKeys, is_url, name_in_url};

use crate::digest::Digest;

/// A wanted kernel: what a word of the command line stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelSpec {
    /// How it is called in reports and tests.
    pub name: String,
    /// The word of a command line that means it, from whatever folder.
    pub word: String,
    /// How to get it.
    pub origin: Origin,
    /// What it is expected to do, by scenario; a scenario not named passes. Only
    /// shipped kernels say something here.
    pub expected: BTreeMap<String, Expected>,
    /// What the user should know of the word's patches: it is told when the kernel is
    /// made or looked up.
    pub notes: Vec<String>,
}

/// How to get a kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// It is built.
    Recipe(Recipe),
    /// It is there: an image that somebody else built.
    Image(PathBuf),
    /// It is in a distribution's package (`.deb`).
    Package(PathBuf),
}

/// How to build a kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recipe {
    /// Where its source comes from.
    pub source: Source,
    /// A tarball to fetch where the source is a package that this machine cannot have.
    pub alternative: Option<Box<Source>>,
    /// What is changed in it, in order.
    pub patches: Vec<Patch>,
    /// A whole `.config` that it starts from; without one it starts from nothing.
    pub config: Option<Fragment>,
    /// Its configuration; later ones win. An option that this version of the source does
    /// not have is passed over, with a warning.
    pub fragments: Vec<Fragment>,
    /// What the user's word adds to that. Each option must exist.
    pub own: Vec<Fragment>,
}

/// A patch, read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Patch {
    /// The file that it was in, or the revision range, for messages.
    pub path: PathBuf,
    /// Which mail of that file it was, from 1, if the file has several.
    pub mail: Option<usize>,
    /// Its content: the diffs, perhaps with text around them.
    pub bytes: Vec<u8>,
    /// Applied or taken back.
    pub direction: Direction,
    /// Its subject without `[PATCH]`, if it has one.
    pub subject: Option<String>,
    /// Which part of its series it is, if it says so.
    pub number: Option<PatchNumber>,
    /// The commit that its author made its series on, if that is said.
    pub base_commit: Option<String>,
}

impl Patch {
    /// A diff of which nothing more is known than where it was.
    pub fn new(path: impl Into<PathBuf>, bytes: Vec<u8>, direction: Direction) -> Self {
        Self {
            path: path.into(),
            mail: None,
            bytes,
            direction,
            subject: None,
            number: None,
            base_commit: None,
        }
    }

    /// Its file's name, with the mail's number in it: `series.mbox#3`.
    pub fn name(&self) -> String {
        let name = crate::files::name(&self.path);
        match self.mail {
            Some(mail) => format!("{name}#{mail}"),
            None => name,
        }
    }

    /// All by which a reader finds it: its path, its mail's number in the file, its
    /// part of the series, its subject.
    pub fn label(&self) -> String {
        let mut known = Vec::new();
        if let Some(mail) = self.mail {
            known.push(format!("mail {mail}"));
        }
        if let Some(number) = self.number {
            known.push(format!("patch {number}"));
        }
        if let Some(subject) = &self.subject {
            known.push(format!("{subject:?}"));
        }
        if known.is_empty() {
            format!("{:?}", self.path)
        } else {
            format!("{:?} ({})", self.path, known.join(", "))
        }
    }

    /// A line of its content, for messages. What comes from a mail has other lines there.
    pub(crate) fn line(&self, line: usize) -> String {
        match self.subject {
            Some(_) => format!("line {line} of its diffs"),
            None => format!("line {line}"),
        }
    }

    /// The digest of its content.
    pub fn digest(&self) -> Digest {
        Digest::of(&self.bytes)
    }
}

/// Which part of a series a patch is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PatchNumber {
    /// The part, from 1; 0 is the cover letter.
    pub part: u32,
    /// How many parts there are.
    pub of: u32,
}

impl PatchNumber {
    /// Reads `2/5`, also as `02/05`.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let number = |text: &str| {
            let digits =
                (1..=4).contains(&text.len()) && text.bytes().all(|letter| letter.is_ascii_digit());
            digits.then(|| text.parse().ok()).flatten()
        };
        let (part, of) = text.split_once('/')?;
        let number = Self {
            part: number(part)?,
            of: number(of)?,
        };
        (number.of > 0).then_some(number)
    }
}

impl fmt::Display for PatchNumber {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}", self.part, self.of)
    }
}

/// Which way a patch goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// It is applied.
    Apply,
    /// It is taken back.
    Revert,
}

/// A configuration fragment, read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fragment {
    /// Its name or path, for messages.
    pub name: String,
    /// Its text: `CONFIG_X=y` and `# CONFIG_X is not set` lines.
    pub text: String,
}

/// What a kernel is expected to do with a scenario.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expected {
    /// The verdict.
    pub verdict: ExpectedVerdict,
    /// Why.
    pub because: String,
}

/// A verdict that can be expected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ExpectedVerdict {
    /// The kernel behaves as the scenario says.
    Pass,
    /// It does not.
    Fail,
    /// The scenario cannot tell on this kernel.
    Inconclusive,
}

impl KernelSpec {
    /// The release that it will tell, as far as that is known before it is there: from a
    /// package's name, a folder's Makefile, an image's banner.
    pub fn release(&self) -> Option<String> {
        match &self.origin {
            Origin::Image(path) => crate::image::inspect(path).ok()?.release,
            // Debian's names: linux-image-6.12.95+deb12-cloud-amd64_6.12.95-1_amd64.deb
            Origin::Package(path) => {
                let name = crate::files::name(path);
                let release = name.strip_prefix("linux-image-")?.split('_').next()?;
                let release = release.strip_prefix("unsigned-").unwrap_or(release);
                Some(release.to_owned())
            }
            Origin::Recipe(recipe) => recipe.source.release(),
        }
    }

    /// What it is expected to do with a scenario (`suite/scenario`).
    pub fn expects(&self, scenario: &str) -> ExpectedVerdict {
        self.expected
            .get(scenario)
            .map_or(ExpectedVerdict::Pass, |expected| expected.verdict)
    }
}
