//! The tools of a build: whether they are here, what package has them, and who the
//! compiler is.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use serde::{Deserialize, Serialize};

use crate::tools::process;

/// Why a build cannot even start.
#[derive(Debug, thiserror::Error)]
pub enum ToolError {
    /// Tools are missing.
    #[error(
        "{purpose} needs what this machine does not have: {}\n{}",
        missing.join(", "),
        install.join("\n")
    )]
    Missing {
        /// For what they are needed.
        purpose: &'static str,
        /// What is missing.
        missing: Vec<String>,
        /// The commands that install it, by distribution.
        install: Vec<String>,
    },
    /// The compiler does not answer.
    #[error("{program:?} does not say its version: is it a working compiler?")]
    Mute {
        /// The program.
        program: String,
    },
    /// Kernels are built on their own architecture only.
    #[error("kernels for x86-64 are built here, and this machine is {0}")]
    Architecture(&'static str),
}

/// The programs that decide a kernel's bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Toolchain {
    /// The compiler's command.
    pub cc: String,
    /// The first line of `cc --version`.
    pub compiler: String,
    /// The first line of `ld --version`.
    pub linker: String,
}

/// A thing that may be needed, with its package on Debian, Fedora, Arch, openSUSE.
struct Thing {
    name: &'static str,
    packages: [&'static str; 4],
    /// A file of the source that says that it is needed; always if empty.
    if_has: &'static str,
}

const SYSTEMS: [(&str, &str); 4] = [
    ("Debian, Ubuntu", "apt-get install"),
    ("Fedora", "dnf install"),
    ("Arch", "pacman -S"),
    ("openSUSE", "zypper install"),
];

const BUILD: &[Thing] = &[
    thing("make", "make", "make", "make", "make", ""),
    thing("gcc", "gcc", "gcc", "gcc", "gcc", ""),
    thing("ld", "binutils", "binutils", "binutils", "binutils", ""),
    thing("strip", "binutils", "binutils", "binutils", "binutils", ""),
    thing(
        "flex",
        "flex",
        "flex",
        "flex",
        "flex",
        "scripts/kconfig/lexer.l",
    ),
    thing(
        "bison",
        "bison",
        "bison",
        "bison",
        "bison",
        "scripts/kconfig/parser.y",
    ),
    thing("bc", "bc", "bc", "bc", "bc", "kernel/time/timeconst.bc"),
    thing(
        "perl",
        "perl",
        "perl",
        "perl",
        "perl",
        "scripts/Kbuild.include",
    ),
];

const UNPACK: &[Thing] = &[
    thing("dpkg-deb", "dpkg", "dpkg", "dpkg", "dpkg", ""),
    thing("tar", "tar", "tar", "tar", "tar", ""),
    thing("xz", "xz-utils", "xz", "xz", "xz", ""),
];

const DECOMPRESS: &[Thing] = &[
    thing("xz", "xz-utils", "xz", "xz", "xz", ""),
    thing("gzip", "gzip", "gzip", "gzip", "gzip", ""),
    thing("zstd", "zstd", "zstd", "zstd", "zstd", ""),
];

const KEYRING: &[Thing] = &[thing(
    "openssl", "openssl", "openssl", "openssl", "openssl", "",
)];

const PATCH: &[Thing] = &[thing("git", "git", "git-core", "git", "git-core", "")];

const LIBELF: Thing = thing(
    "the header gelf.h",
    "libelf-dev",
    "elfutils-libelf-devel",
    "libelf",
    "libelf-devel",
    "tools/objtool/Makefile",
);

const LIBSSL: Thing = thing(
    "the header openssl/opensslv.h",
    "libssl-dev",
    "openssl-devel",
    "openssl",
    "libopenssl-devel",
    "",
);

const fn thing(
    name: &'static str,
    debian: &'static str,
    fedora: &'static str,
    arch: &'static str,
    suse: &'static str,
    if_has: &'static str,
) -> Thing {
    Thing {
        name,
        packages: [debian, fedora, arch, suse],
        if_has,
    }
}

/// A PATH to look for tools in.
#[derive(Debug, Clone)]
pub(crate) struct Toolbox {
    pub(crate) path: OsString,
    /// The compiler and the arguments that always come first.
    compiler: Vec<String>,
}

impl Toolbox {
    /// `compiler` is a program or, if there is no such program, a command: its words are
    /// parted by spaces. numalab calls ccache by itself.
    pub(crate) fn new(path: OsString, compiler: &str) -> Self {
        let mut toolbox = Self {
            path,
            compiler: vec![compiler.to_owned()],
        };
        let words: Vec<String> = compiler.split_whitespace().map(str::to_owned).collect();
        if !toolbox.has(compiler) && words.len() > 1 {
            let is_ccache = Path::new(&words[0]).file_name() == Some(OsStr::new("ccache"));
            toolbox.compiler = words[usize::from(is_ccache)..].to_vec();
        }
        toolbox
    }

    /// Whether the compiler's command can be given to make and shells as it is.
    pub(crate) fn has_plain_compiler(&self) -> bool {
        let plain = |letter: char| letter.is_ascii_alphanumeric() || "._+-/".contains(letter);
        matches!(self.compiler.as_slice(), [program] if program.chars().all(plain))
    }

    /// The compiler as one plain word for make: its name, or a script in `folder` that runs
    /// its command.
    pub(crate) fn compiler_for_make(&self, folder: &Path) -> io::Result<String> {
        if self.has_plain_compiler() {
            return Ok(self.compiler[0].clone());
        }
        let words = self.compiler.iter().map(|word| word.replace('\'', r"'\''"));
        let words: Vec<String> = words.map(|word| format!("'{word}'")).collect();
        let text = format!("#!/bin/sh\nexec {} \"$@\"\n", words.join(" "));
        let script = folder.join("cc");
        if fs::read_to_string(&script).ok().as_ref() != Some(&text) {
            fs::write(&script, text)?;
            fs::set_permissions(&script, fs::Permissions::from_mode(0o755))?;
        }
        Ok(script.display().to_string())
    }

    /// The compiler without what calls it and without arguments: `gcc` of `distcc gcc -m64`.
    pub(crate) fn called_compiler(&self) -> &str {
        let mut words = self.compiler.iter().rev();
        let called = words.find(|word| !word.starts_with('-'));
        called.map_or(self.compiler(), String::as_str)
    }

    fn compiler(&self) -> &str {
        &self.compiler[0]
    }

    fn has_compiler(&self) -> bool {
        self.has(self.compiler())
    }

    fn has(&self, name: &str) -> bool {
        which::which_in(name, Some(&self.path), "/").is_ok()
    }

    /// Checks the tools that compile `source`.
    pub(crate) fn check_build(&self, source: &Path) -> Result<(), ToolError> {
        if std::env::consts::ARCH != "x86_64" {
            return Err(ToolError::Architecture(std::env::consts::ARCH));
        }
        let needed = |thing: &&Thing| thing.if_has.is_empty() || source.join(thing.if_has).exists();
        let mut missing: Vec<&Thing> = BUILD
            .iter()
            .filter(needed)
            .filter(|thing| match thing.name {
                "gcc" => !self.has_compiler(),
                name => !self.has(name),
            })
            .collect();
        if needed(&&LIBELF) && self.has_compiler() && !self.compiles("#include <gelf.h>\n") {
            missing.push(&LIBELF);
        }
        self.report("building a kernel", &missing)
    }

    /// Checks what a kernel needs that has a keyring in it: its build makes and reads
    /// certificates.
    pub(crate) fn check_keyring(&self) -> Result<(), ToolError> {
        let mut missing: Vec<&Thing> = KEYRING
            .iter()
            .filter(|thing| !self.has(thing.name))
            .collect();
        if !self.compiles("#include <openssl/opensslv.h>\n") {
            missing.push(&LIBSSL);
        }
        self.report(
            "building a kernel with CONFIG_SYSTEM_TRUSTED_KEYRING",
            &missing,
        )
    }

    /// Checks the tools that unpack a Debian package.
    pub(crate) fn check_unpack(&self) -> Result<(), ToolError> {
        self.check("unpacking the kernel's source", UNPACK)
    }

    /// Checks one of the tools that decompress.
    pub(crate) fn check_decompressor(&self, tool: &str) -> Result<(), ToolError> {
        let missing: Vec<&Thing> = DECOMPRESS
            .iter()
            .filter(|thing| thing.name == tool && !self.has(tool))
            .collect();
        self.report("decompressing it", &missing)
    }

    /// Checks the tools that apply patches.
    pub(crate) fn check_patch(&self) -> Result<(), ToolError> {
        self.check("applying patches", PATCH)
    }

    fn check(&self, purpose: &'static str, things: &[Thing]) -> Result<(), ToolError> {
        let missing: Vec<&Thing> = things
            .iter()
            .filter(|thing| !self.has(thing.name))
            .collect();
        self.report(purpose, &missing)
    }

    fn report(&self, purpose: &'static str, missing: &[&Thing]) -> Result<(), ToolError> {
        if missing.is_empty() {
            return Ok(());
        }
        let install = SYSTEMS
            .iter()
            .enumerate()
            .map(|(index, (system, command))| {
                let mut packages: Vec<&str> = missing
                    .iter()
                    .map(|thing| match thing.name {
                        // Debian's packages of compilers are called like these.
                        "gcc" if index == 0 => self.compiler(),
                        _ => thing.packages[index],
                    })
                    .collect();
                packages.sort_unstable();
                packages.dedup();
                format!("  {system}: {command} {}", packages.join(" "))
            })
            .collect();
        let missing = missing
            .iter()
            .map(|thing| match thing.name {
                "gcc" => self.compiler().to_owned(),
                name => name.to_owned(),
            })
            .collect();
        Err(ToolError::Missing {
            purpose,
            missing,
            install,
        })
    }

    fn compiles(&self, text: &str) -> bool {
        let mut command = self.command(self.compiler());
        command
            .args(&self.compiler[1..])
            .args(["-fsyntax-only", "-x", "c", "-"])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let Ok(mut child) = command.spawn() else {
            return false;
        };
        if let Some(mut input) = child.stdin.take() {
            // A compiler that does not read it does not compile it either.
            let _ = input.write_all(text.as_bytes());
        }
        child.wait().is_ok_and(|status| status.success())
    }

    /// Asks the compiler and the linker who they are.
    pub(crate) fn identify(&self) -> Result<Toolchain, ToolError> {
        let first_line = |words: &[String]| {
            let program = &words[0];
            let mut command = self.command(program);
            command.args(&words[1..]).arg("--version");
            process::answer(command)
                .and_then(|text| text.lines().next().map(str::to_owned))
                .ok_or_else(|| ToolError::Mute {
                    program: program.clone(),
                })
        };
        Ok(Toolchain {
            cc: self.compiler.join(" "),
            compiler: first_line(&self.compiler)?,
            linker: first_line(&["ld".to_owned()])?,
        })
    }

    /// Whether the compiler's cache is installed.
    pub(crate) fn has_ccache(&self) -> bool {
        self.has("ccache")
    }

    /// A command of this toolbox, found by its own PATH and not by the caller's.
    pub(crate) fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let program = program.as_ref();
        let found = which::which_in(program, Some(&self.path), "/");
        process::command(
            found.map_or_else(|_| program.to_owned(), |path| path.into_os_string()),
            &self.path,
        )
    }
}

/// The tool that decompresses what begins like this, and its arguments.
pub(crate) fn decompressor(head: &[u8]) -> Option<(&'static str, &'static [&'static str])> {
    const PLAIN: &[&str] = &["--decompress", "--stdout"];
    let known: [(&[u8], _, _); 3] = [
        (
            b"\xfd7zXZ\0",
            "xz",
            &["--decompress", "--stdout", "-T0"][..],
        ),
        (b"\x1f\x8b", "gzip", PLAIN),
        (
            b"\x28\xb5\x2f\xfd",
            "zstd",
            &["--decompress", "--stdout", "--quiet"],
        ),
    ];
    let (_, tool, arguments) = known
        .into_iter()
        .find(|(magic, ..)| head.starts_with(magic))?;
    Some((tool, arguments))
}

/// How to install what a build's output says is missing, each way on a line of its own
/// after a line's end; nothing if it is not known.
pub(crate) fn install(missing: &str) -> String {
    const MORE: &[Thing] = &[
        thing(
            "the library libelf",
            "libelf-dev",
            "elfutils-libelf-devel",
            "libelf",
            "libelf-devel",
            "",
        ),
        thing(
            "the library libcrypto",
            "libssl-dev",
            "openssl-devel",
            "openssl",
            "libopenssl-devel",
            "",
        ),
        thing("pahole", "pahole", "dwarves", "pahole", "dwarves", ""),
        thing("python3", "python3", "python3", "python", "python3", ""),
        thing("cpio", "cpio", "cpio", "cpio", "cpio", ""),
        thing("lz4", "lz4", "lz4", "lz4", "lz4", ""),
        thing("rsync", "rsync", "rsync", "rsync", "rsync", ""),
        thing(
            "the header libelf.h",
            "libelf-dev",
            "elfutils-libelf-devel",
            "libelf",
            "libelf-devel",
            "",
        ),
    ];
    let known = [BUILD, DECOMPRESS, PATCH, KEYRING, MORE];
    let thing = known
        .iter()
        .flat_map(|things| things.iter())
        .chain([&LIBELF, &LIBSSL])
        .find(|thing| {
            thing.name == missing || (thing.name == LIBSSL.name && missing.contains("openssl/"))
        });
    let Some(thing) = thing else {
        return String::new();
    };
    SYSTEMS
        .iter()
        .zip(thing.packages)
        .map(|((system, command), package)| format!("\n  {system}: {command} {package}"))
        .collect()
}

/// Checks in advance whether this machine has what builds need, for a report about
/// the machine; `Ok` if it does.
pub fn check(compiler: &str) -> Result<(), ToolError> {
    let toolbox = Toolbox::new(std::env::var_os("PATH").unwrap_or_default(), compiler);
    let mut missing: Vec<&Thing> = BUILD
        .iter()
        .chain(UNPACK)
        .chain(PATCH)
        .filter(|thing| match thing.name {
            "gcc" => !toolbox.has_compiler(),
            name => !toolbox.has(name),
        })
        .collect();
    if toolbox.has_compiler() && !toolbox.compiles("#include <gelf.h>\n") {
        missing.push(&LIBELF);
    }
    toolbox.report("building kernels", &missing)
}
