//! What a word of the command line says of a kernel's configuration: `+CONFIG_X=y`,
//! `+fragment:FILE`, `+config:FILE`.
//!
//! Whether an option exists, and whether it is granted, is found out when the kernel is
//! configured.

use std::io::{self, Read, Seek as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use crate::catalog::error::SpecError;
use crate::config::option::is_option;
use crate::files;
use crate::spec::Fragment;
use crate::tools::process::{self, Said};
use crate::tools::toolchain;

/// What stands before a fragment's file.
const FRAGMENT: &str = "fragment:";

/// What stands before the file of a whole configuration.
const CONFIG: &str = "config:";

const DECOMPRESS_DEADLINE: Duration = Duration::from_secs(10);

/// A part of a word that configures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Setting {
    /// Options on top of the kernel's own configuration.
    Own {
        /// How the kernel is called after them.
        name: String,
        /// The part of the word, with an absolute path.
        piece: String,
        /// The options.
        fragment: Fragment,
    },
    /// A whole `.config` in place of the kernel's own configuration.
    Whole {
        /// How the kernel is called after it.
        name: String,
        /// The part of the word, with an absolute path.
        piece: String,
        /// The configuration.
        config: Fragment,
    },
}

impl Setting {
    /// Reads a part of `word`; `None` if it is another kind of part.
    ///
    /// # Errors
    /// The option has no value, or the file cannot be read.
    pub fn read(piece: &str, word: &str, cwd: &Path) -> Result<Option<Self>, SpecError> {
        if let Some(name) = piece.strip_prefix(FRAGMENT) {
            let (path, text) = file(name, piece, word, cwd)?;
            return Ok(Some(Self::Own {
                name: stem(&path),
                piece: format!("{FRAGMENT}{}", path.display()),
                fragment: Fragment {
                    name: name.to_owned(),
                    text,
                },
            }));
        }
        if let Some(name) = piece.strip_prefix(CONFIG) {
            let (path, text) = file(name, piece, word, cwd)?;
            return Ok(Some(Self::Whole {
                name: format!("config-{}", stem(&path)),
                piece: format!("{CONFIG}{}", path.display()),
                config: Fragment {
                    name: name.to_owned(),
                    text,
                },
            }));
        }
        if !piece.starts_with("CONFIG_") || cwd.join(piece).exists() {
            return Ok(None);
        }
        let fault = |why| SpecError::Setting {
            word: word.to_owned(),
            piece: piece.to_owned(),
            why,
        };
        let (option, value) = piece
            .split_once('=')
            .ok_or_else(|| fault("has no value: write CONFIG_X=y, =n, or another value"))?;
        if !is_option(option) {
            return Err(fault(
                "names no option: CONFIG_ and then A-Z, 0-9, `_`, a-z",
            ));
        }
        if value.is_empty() || value.contains(['\n', '\r']) {
            return Err(fault(
                "has no value of one line: write CONFIG_X=y, =n, or another value",
            ));
        }
        let text = match value {
            "n" => format!("# {option} is not set\n"),
            value => format!("{option}={value}\n"),
        };
        Ok(Some(Self::Own {
            name: piece.trim_start_matches("CONFIG_").to_owned(),
            piece: piece.to_owned(),
            fragment: Fragment {
                name: piece.to_owned(),
                text,
            },
        }))
    }

    /// How a kernel is called after it.
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Own { name, .. } | Self::Whole { name, .. } => name,
        }
    }

    /// The part of a word that means the same from any folder.
    pub(crate) fn piece(&self) -> &str {
        match self {
            Self::Own { piece, .. } | Self::Whole { piece, .. } => piece,
        }
    }
}

fn file(name: &str, piece: &str, word: &str, cwd: &Path) -> Result<(PathBuf, String), SpecError> {
    if name.is_empty() {
        return Err(SpecError::Setting {
            word: word.to_owned(),
            piece: piece.to_owned(),
            why: "names no file",
        });
    }
    let path = cwd.join(name);
    let path = path
        .canonicalize()
        .map_err(|source| SpecError::Read { path, source })?;
    let read = |source| SpecError::Read {
        path: path.clone(),
        source,
    };
    let fault = |why| SpecError::Setting {
        word: word.to_owned(),
        piece: piece.to_owned(),
        why,
    };
    let bytes = match decompressed(&path).map_err(read)? {
        Some(said) if said.status.success() => said.stdout,
        Some(_) => return Err(fault("is a compressed file that cannot be decompressed")),
        None => files::read(&path).map_err(read)?,
    };
    let text = String::from_utf8(bytes).map_err(|_| fault("is a file that is no UTF-8 text"))?;
    if let Some(why) = foreign(&text) {
        return Err(fault(why));
    }
    Ok((path, text))
}

/// What a compressed file holds, such as `/proc/config.gz`; `None` for any other.
fn decompressed(path: &Path) -> io::Result<Option<Said>> {
    let mut file = files::open(path)?;
    let mut head = Vec::new();
    Read::by_ref(&mut file).take(16).read_to_end(&mut head)?;
    let Some((tool, arguments)) = toolchain::decompressor(&head) else {
        return Ok(None);
    };
    file.rewind()?;
    let mut command = process::command(tool, &std::env::var_os("PATH").unwrap_or_default());
    command.args(arguments);
    let (what, never) = (format!("decompressing {path:?}"), AtomicBool::new(false));
    process::output(command, Some(file), &what, DECOMPRESS_DEADLINE, &never)
        .map(Some)
        .map_err(io::Error::other)
}

/// Why a configuration is none for x86-64.
fn foreign(text: &str) -> Option<&'static str> {
    let sets = |option: &str| text.lines().any(|line| line.trim_end() == option);
    let others = [
        (
            "CONFIG_ARM64=y",
            "is a configuration for arm64, and not for x86-64",
        ),
        (
            "CONFIG_ARM=y",
            "is a configuration for arm, and not for x86-64",
        ),
        (
            "CONFIG_RISCV=y",
            "is a configuration for riscv, and not for x86-64",
        ),
        (
            "CONFIG_PPC=y",
            "is a configuration for powerpc, and not for x86-64",
        ),
        (
            "CONFIG_S390=y",
            "is a configuration for s390, and not for x86-64",
        ),
        (
            "CONFIG_LOONGARCH=y",
            "is a configuration for loongarch, and not for x86-64",
        ),
        (
            "CONFIG_X86_32=y",
            "is a configuration for 32-bit x86, and not for x86-64",
        ),
    ];
    let found = others.iter().find(|(option, _)| sets(option));
    found.map(|(_, why)| *why)
}

fn stem(path: &Path) -> String {
    let name = files::name(path);
    match name.rsplit_once('.') {
        Some((stem, _)) if !stem.is_empty() => stem.to_owned(),
        _ => name.trim_start_matches('.').to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(piece: &str) -> Result<Option<Setting>, String> {
        Setting::read(piece, "linux+x", Path::new("/nonexistent")).map_err(|e| e.to_string())
    }

    #[test]
    fn options_are_told_from_patches() {
        let Some(Setting::Own { name, fragment, .. }) = read("CONFIG_HZ=250").unwrap() else {
            panic!("an option");
        };
        assert_eq!(
            (name.as_str(), fragment.text.as_str()),
            ("HZ=250", "CONFIG_HZ=250\n")
        );
        let Some(Setting::Own { fragment, .. }) = read("CONFIG_HZ_250=n").unwrap() else {
            panic!("an option");
        };
        assert_eq!(fragment.text, "# CONFIG_HZ_250 is not set\n");
        assert_eq!(read("fix.patch").unwrap(), None);
        for wrong in [
            "CONFIG_",
            "CONFIG_X",
            "CONFIG_X=",
            "CONFIG_-=y",
            "CONFIG_X=a\nCONFIG_Y=y",
        ] {
            assert!(read(wrong).unwrap_err().contains("linux+x"), "{wrong}");
        }
        assert!(read("fragment:").unwrap_err().contains("names no file"));
        assert!(
            read("config:none")
                .unwrap_err()
                .contains("/nonexistent/none")
        );
    }

    #[test]
    fn a_compressed_configuration_is_read_and_one_of_another_architecture_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("my.config");
        std::fs::write(&path, "CONFIG_A=y\n").unwrap();
        let zipped = std::process::Command::new("gzip").arg(&path).status();
        assert!(zipped.unwrap().success());
        let read = |piece: &str| Setting::read(piece, "x", folder.path());
        let Some(Setting::Whole { config, .. }) = read("config:my.config.gz").unwrap() else {
            panic!("a configuration");
        };
        assert_eq!(config.text, "CONFIG_A=y\n");
        let file = folder.path().join("cut.gz");
        std::fs::write(file, b"\x1f\x8b\x08 and no more").unwrap();
        let error = read("fragment:cut.gz").unwrap_err().to_string();
        assert!(error.contains("cannot be decompressed"), "{error}");
        std::fs::write(folder.path().join("arm"), "CONFIG_ARM64=y\n").unwrap();
        let error = read("config:arm").unwrap_err().to_string();
        assert!(error.contains("configuration for arm64"), "{error}");
    }
}
