//! Why a word names no kernel.

use std::io;
use std::path::PathBuf;

/// Why a word names no kernel.
#[derive(Debug, thiserror::Error)]
pub enum SpecError {
    /// The folder cannot be read.
    #[error("cannot read the kernel definitions in {path:?}")]
    Folder {
        /// The folder.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// There is no such thing.
    #[error("{word:?} is no kernel: neither a file or folder in {cwd:?} nor one of {known}{hint}")]
    Unknown {
        /// The word.
        word: String,
        /// Where paths were looked for.
        cwd: PathBuf,
        /// The names that exist.
        known: String,
        /// The nearest one, as a sentence.
        hint: String,
    },
    /// An address without a digest.
    #[error(
        "{word:?} is an address, and lacks the digest of what is there: write \
         ADDRESS#sha256=DIGITS, as sha256sum prints them"
    )]
    Digestless {
        /// The word.
        word: String,
    },
    /// A folder that holds no kernel source.
    #[error(
        "{path:?} is no kernel source: it has no {missing}; a folder of a kernel's source, a \
         definition (.yaml), a vmlinux or a bzImage is expected"
    )]
    Folderless {
        /// The folder.
        path: PathBuf,
        /// What was looked for.
        missing: &'static str,
    },
    /// A patch after a `+` is not there.
    #[error("the patch {patch:?} in {word:?} is not there (looked for in {cwd:?})")]
    Patch {
        /// The word.
        word: String,
        /// The patch's part of it.
        patch: String,
        /// Where it was looked for.
        cwd: PathBuf,
    },
    /// A patch on top of an image.
    #[error("{word:?} puts a patch on an image: only a kernel that is built can be patched")]
    PatchedImage {
        /// The word.
        word: String,
    },
    /// A word that should mean a commit, and names no folder.
    #[error(
        "{word:?} is no commit: git:PATH@REVISION is expected, and no PATH in it is a folder \
         (looked for in {cwd:?})"
    )]
    Commit {
        /// The word.
        word: String,
        /// Where paths were looked for.
        cwd: PathBuf,
    },
    /// A configuration for an image.
    #[error("{word:?} configures an image: only a kernel that is built can be configured")]
    ConfiguredImage {
        /// The word.
        word: String,
    },
    /// A part of a word is no configuration.
    #[error("{piece:?} in {word:?} {why}")]
    Setting {
        /// The word.
        word: String,
        /// The part of it.
        piece: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// A file of a kernel cannot be read.
    #[error("cannot read {path:?}")]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
}
