//! Gets one kernel and prints its manifest: `ensure CATALOG WORD [JOBS [BASE]]`; with a base,
//! the kernel that counts with gcov what it changes in that, and its profile.
//!
//! The command `numalab kernel build` is what people use. This one has no dress: the
//! tests start, stop and kill it, because some promises are about processes.

use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use numalab_kernels::profile::Side;
use numalab_kernels::{
    BuildEvent, BuildOptions, Cache, Catalog, ErrorKind, KernelError, Progress, get_or_build,
    get_or_build_profiled,
};

struct Lines(Instant);

impl Progress for Lines {
    fn event(&self, event: BuildEvent<'_>) {
        let at = self.0.elapsed().as_secs_f64();
        match event {
            BuildEvent::BuildStage { stage, detail } => eprintln!("{at:7.2} {stage} {detail}"),
            BuildEvent::Count { done, total, stage } if done % 500 == 0 => {
                eprintln!("{at:7.2} {stage} {done} of {total:?}");
            }
            BuildEvent::Count { .. } | BuildEvent::Line(_) => {}
            BuildEvent::Note(text) => eprintln!("{at:7.2} note: {text}"),
            BuildEvent::Warning(text) => eprintln!("{at:7.2} warning: {text}"),
        }
    }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [catalog, word, rest @ ..] = arguments.as_slice() else {
        eprintln!("usage: ensure CATALOG WORD [JOBS [BASE]]");
        return ExitCode::from(2);
    };
    let options = BuildOptions {
        jobs: rest.first().and_then(|jobs| jobs.parse().ok()),
        ..BuildOptions::default()
    };
    match run(Path::new(catalog), word, rest.get(1), &options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            let mut cause = std::error::Error::source(&error);
            while let Some(error) = cause {
                eprintln!("  because: {error}");
                cause = error.source();
            }
            ExitCode::from(match error.kind() {
                ErrorKind::Build => 1,
                ErrorKind::Input => 2,
                ErrorKind::Environment => 3,
                ErrorKind::Interrupted => 4,
            })
        }
    }
}

fn run(
    catalog: &Path,
    word: &str,
    base: Option<&String>,
    options: &BuildOptions,
) -> Result<(), KernelError> {
    let cache = Cache::of_user()?;
    let catalog = Catalog::load(catalog)?;
    let wanted = catalog.resolve(word, Path::new("."), &cache)?;
    let progress = Lines(Instant::now());
    let cancel = AtomicBool::new(false);
    let kernel = match base {
        None => get_or_build(&cache, &wanted, options, &progress, &cancel)?,
        Some(base) => {
            let base = catalog.resolve(base, Path::new("."), &cache)?;
            let (kernels, side) = ([&base, &wanted], Side::Patched);
            let Some(profiled) =
                get_or_build_profiled(&cache, kernels, side, options, &progress, &cancel)?
            else {
                eprintln!("{word} is not {base:?} with patches", base = base.name);
                return Ok(());
            };
            let profile = serde_json::to_string_pretty(&profiled.profile);
            println!("{}", profile.unwrap_or_default());
            profiled.kernel
        }
    };
    let at = progress.0.elapsed().as_secs_f64();
    eprintln!(
        "{at:7.2} {} {}",
        kernel.image_digest,
        kernel.image.display()
    );
    println!(
        "{}",
        serde_json::to_string_pretty(&kernel.manifest).unwrap_or_default()
    );
    Ok(())
}
