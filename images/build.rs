//! Builds the guest's agent, a static program that the library embeds.
//!
//! Cargo has no stable way to depend on the binary of another package, so this runs Cargo
//! again, in the same workspace, with its own target directory and a clean environment.
//! Whatever flags, wrappers or linters the outer build uses, the agent's bytes depend only on
//! the workspace, the toolchain and the C library.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Output};

const TARGET: &str = "x86_64-unknown-linux-gnu";
const PACKAGE: &str = "numalab-agent";
const PROFILE: &str = "agent";

/// What the inner Cargo needs to find its tools, its registry and the network.
const KEPT: [&str; 22] = [
    "PATH",
    "HOME",
    "USER",
    "TMPDIR",
    "LD_LIBRARY_PATH",
    "CARGO_HOME",
    "RUSTUP_HOME",
    "RUSTUP_TOOLCHAIN",
    "RUSTUP_AUTO_INSTALL",
    "CARGO_MAKEFLAGS",
    "CARGO_NET_OFFLINE",
    "CARGO_NET_GIT_FETCH_WITH_CLI",
    "CARGO_HTTP_CAINFO",
    "CARGO_HTTP_PROXY",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "http_proxy",
    "https_proxy",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "no_proxy",
    "NO_PROXY",
];

/// Prefixes of variables that configure registries.
const KEPT_PREFIXES: [&str; 3] = ["CARGO_REGISTRY_", "CARGO_REGISTRIES_", "CARGO_SOURCE_"];

fn main() -> ExitCode {
    match build() {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            // Cargo shows the standard error of a build script that fails.
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}

fn build() -> Result<(), String> {
    let here = PathBuf::from(variable("CARGO_MANIFEST_DIR")?);
    let workspace = here
        .parent()
        .ok_or("the images folder has no parent")?
        .to_owned();
    let out = PathBuf::from(variable("OUT_DIR")?);
    for path in [
        "Cargo.toml",
        "Cargo.lock",
        "images/build.rs",
        "images/agent/Cargo.toml",
        "images/agent/src",
        "images/protocol/Cargo.toml",
        "images/protocol/src",
    ] {
        println!("cargo::rerun-if-changed={}", workspace.join(path).display());
    }
    for name in ["CARGO_HOME", "RUSTUP_TOOLCHAIN"] {
        println!("cargo::rerun-if-env-changed={name}");
    }

    let target_dir = out.join("agent-target");
    let mut cargo = clean(Command::new(variable("CARGO")?));
    cargo
        .current_dir(&workspace)
        .args(["build", "--locked", "--quiet"])
        .args(["--package", PACKAGE, "--profile", PROFILE])
        .args(["--target", TARGET])
        .arg("--target-dir")
        .arg(&target_dir)
        // If set, these override configuration files, even with an empty value.
        .env("CARGO_ENCODED_RUSTFLAGS", flags(&workspace, &out)?)
        .env("RUSTC_WRAPPER", "")
        .env("RUSTC_WORKSPACE_WRAPPER", "")
        .env("CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_LINKER", "cc")
        .env("CARGO_INCREMENTAL", "0")
        .env("CARGO_TERM_COLOR", "never");
    let Output {
        status,
        stdout,
        stderr,
    } = cargo
        .output()
        .map_err(|error| format!("cannot run cargo to build the guest's agent: {error}"))?;
    if !status.success() {
        return Err(format!(
            "the guest's agent does not build ({status}):\n{}{}",
            String::from_utf8_lossy(&stdout),
            String::from_utf8_lossy(&stderr),
        ));
    }
    let program = target_dir.join(TARGET).join(PROFILE).join(PACKAGE);
    fs::copy(&program, out.join(PACKAGE))
        .map_err(|error| format!("cannot copy {}: {error}", program.display()))?;
    Ok(())
}

fn variable(name: &str) -> Result<OsString, String> {
    env::var_os(name).ok_or_else(|| format!("Cargo has not set {name}"))
}

/// Removes everything but [`KEPT`] and [`KEPT_PREFIXES`] from the environment.
fn clean(mut command: Command) -> Command {
    command.env_clear();
    for (name, value) in env::vars_os() {
        let kept = name.to_str().is_some_and(|name| {
            KEPT.contains(&name) || KEPT_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
        });
        if kept {
            command.env(name, value);
        }
    }
    command
}

/// The compiler's flags, as Cargo encodes them.
///
/// They make the program static, and remove the paths of the building machine: panic
/// messages contain the path of their source file.
fn flags(workspace: &Path, out: &Path) -> Result<OsString, String> {
    let cargo_home = env::var_os("CARGO_HOME")
        .map(PathBuf::from)
        .or_else(|| env::home_dir().map(|home| home.join(".cargo")))
        .ok_or("neither CARGO_HOME nor HOME is set")?;
    let (sysroot, hash) = toolchain()?;
    // The last one that matches wins.
    let mut moved = vec![
        (cargo_home.clone(), "/cargo".to_owned()),
        (workspace.to_owned(), "/numalab".to_owned()),
        (out.to_owned(), "/out".to_owned()),
        // If rust-src is installed, the compiler uses its path.
        (
            sysroot.join("lib/rustlib/src/rust"),
            format!("/rustc/{hash}"),
        ),
    ];
    // The folder of a registry's crates is named after the registry, but the same crates may
    // come from different registries.
    if let Ok(registries) = fs::read_dir(cargo_home.join("registry/src")) {
        let mut registries: Vec<PathBuf> = registries
            .filter_map(|registry| Some(registry.ok()?.path()))
            .collect();
        registries.sort();
        moved.extend(registries.into_iter().map(|path| (path, "/crates".into())));
    }
    let mut flags: Vec<OsString> = [
        "-Ctarget-feature=+crt-static",
        "-Crelocation-model=static",
        "-Clink-arg=-Wl,--build-id=none",
    ]
    .map(OsString::from)
    .into();
    for (from, to) in moved {
        let mut flag = OsString::from("--remap-path-prefix=");
        flag.push(from);
        flag.push("=");
        flag.push(to);
        flags.push(flag);
    }
    Ok(flags.join(&OsString::from("\u{1f}")))
}

/// The compiler's sysroot and commit.
fn toolchain() -> Result<(PathBuf, String), String> {
    let rustc = variable("RUSTC")?;
    let ask = |argument: &[&str]| {
        let output = clean(Command::new(&rustc)).args(argument).output();
        match output {
            Ok(output) if output.status.success() => {
                Ok(String::from_utf8_lossy(&output.stdout).into_owned())
            }
            Ok(output) => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
            Err(error) => Err(format!("cannot run rustc: {error}")),
        }
    };
    let sysroot = PathBuf::from(ask(&["--print", "sysroot"])?.trim_end());
    let version = ask(&["-vV"])?;
    let hash = version
        .lines()
        .find_map(|line| line.strip_prefix("commit-hash: "))
        .unwrap_or("unknown");
    Ok((sysroot, hash.to_owned()))
}
