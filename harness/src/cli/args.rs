//! The arguments.

use camino::Utf8PathBuf;
use clap::{Parser, Subcommand, ValueEnum};
use tokio_util::sync::CancellationToken;

use super::{
    Failure, bisect, bundle, cache, check, compare, doctor, generate, judge, kernel, list, replay,
    run, watch,
};
use crate::guest::mode::AcceleratorChoice;
use crate::run::cached_run::{CachePolicy, Share};
use crate::run::{Runner, RunnerBuilder};
use crate::ui::Ui;
use crate::workspace::Workspace;

/// Tests what Linux' automatic NUMA balancing does, in guests with virtual NUMA nodes, by
/// exact counters.
#[derive(Debug, Parser)]
#[command(name = "numalab", version, max_term_width = 100, after_help = EXITS)]
pub struct Args {
    /// Shows no progress.
    #[arg(long, short, global = true)]
    pub quiet: bool,
    /// Prints results as JSON.
    #[arg(long, global = true)]
    pub json: bool,
    #[command(subcommand)]
    command: Command,
}

const EXITS: &str = "Three uses:
  before a patch is sent    numalab check fix.patch --base linux-6.12
  which commit broke it     numalab bisect --repo DIR --good A --bad B SUITE/SCENARIO
  in CI                     cargo nextest run (in a clone of numalab)

Exit codes: 0 every verdict is pass (compare, check: nothing broken or unclear), \
1 fail or broken, 2 wrong input, 3 inconclusive or unclear, 130 interrupted.

Environment: NUMALAB_CACHE kernels and saved guests (by default in the user's cache folder), \
NUMALAB_RUNS run folders (target/numalab/runs), NUMALAB_QEMU the QEMU to use, NUMALAB_CC the compiler of kernels (gcc), NUMALAB_ROOT the \
project's folder, NUMALAB_PROVE_AGAIN=N runs one in N cached results again (50; 1 all, 0 \
none), NUMALAB_DRAW=N repeats a draw of these.";

#[derive(Debug, Subcommand)]
enum Command {
    /// Tells what this machine can do, what is missing, and how to get it.
    Doctor,
    /// Lists scenarios and kernels.
    List,
    /// Kernels.
    Kernel {
        #[command(subcommand)]
        command: KernelCommand,
    },
    /// Runs scenarios on one kernel.
    Run(RunArgs),
    /// Runs scenarios on two kernels and tells what changed.
    Compare(CompareArgs),
    /// Builds a kernel tree and runs scenarios on it at each save, and tells what turned.
    Watch(WatchArgs),
    /// Checks a patch or a series before it is sent: what it fixes, breaks and does not touch.
    Check(CheckArgs),
    /// Finds the commit that broke a scenario.
    #[command(after_help = bisect::EXITS)]
    Bisect(bisect::BisectArgs),
    /// Judges the checked-out commit, for `git bisect run numalab judge SCENARIO`.
    #[command(after_help = judge::EXITS)]
    Judge(judge::JudgeArgs),
    /// Runs a kept run again and tells whether its records are identical.
    Replay {
        /// The run's folder.
        run: Utf8PathBuf,
    },
    /// Packs a kept run into one archive that repeats it with QEMU alone.
    Bundle {
        /// The run's folder.
        run: Utf8PathBuf,
        /// The archive (.tar.xz); by default it is put into the run's folder.
        #[arg(long, short, value_name = "FILE")]
        output: Option<Utf8PathBuf>,
    },
    /// Prints the JSON schema of scenario files, for editors.
    Schema,
    /// Lists what is in the cache, or prunes it.
    Cache {
        #[command(subcommand)]
        command: Option<CacheCommand>,
    },
    /// Prints a shell's completions.
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
    /// Writes the manual pages into a folder.
    Man {
        /// The folder.
        folder: Utf8PathBuf,
    },
}

#[derive(Debug, Subcommand)]
pub(super) enum KernelCommand {
    /// Builds kernels that are not in the store.
    Build {
        /// Kernels: a shipped name, a definition's .yaml, a source folder, a commit
        /// (`git:PATH@REVISION`), and with `+PATCH` patches on top of any of these: a diff,
        /// mails, a folder, or revisions `A..B`; `+revert:PATCH` takes them back.
        /// A tarball is a kernel, too, and so is a tarball's `https://...#sha256=...`.
        #[arg(required_unless_present = "matrix")]
        kernels: Vec<String>,
        /// All kernels that the tests use: those that are shipped, or, where they are set,
        /// `NUMALAB_BASE` and `NUMALAB_KERNEL`.
        #[arg(long)]
        matrix: bool,
        #[command(flatten)]
        configuring: Configuring,
        /// Compiler processes at a time; by default what processors and memory allow.
        #[arg(long, short, value_parser = jobs)]
        jobs: Option<usize>,
        /// Prints every line of the build's output. For a kernel that is in the cache, the
        /// output of its build is printed.
        #[arg(long, short)]
        verbose: bool,
    },
}

/// How kernels are configured. Each is short for a part of the kernel's word, which reports
/// show: `linux-6.12+CONFIG_HZ_250=y`.
#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "Configuration of kernels that are built")]
pub(super) struct Configuring {
    /// A whole `.config` in place of the kernel's own; what guests need is added, and told.
    /// As a part of a word: `+config:FILE`.
    #[arg(long, value_name = "FILE")]
    pub(super) config: Option<String>,
    /// A fragment of a configuration on top; can be given again. As a part of a word:
    /// `+fragment:FILE`.
    #[arg(long, value_name = "FILE")]
    pub(super) config_fragment: Vec<String>,
    /// An option on top of all; can be given again. As a part of a word: `+CONFIG_X=y`.
    #[arg(long, value_name = "CONFIG_X=VALUE")]
    pub(super) set: Vec<String>,
}

impl Configuring {
    /// A kernel's word with these parts.
    pub(super) fn word(&self, word: &str) -> Result<String, Failure> {
        let mut word = word.to_owned();
        let files = self.config.iter().map(|file| ("config:", file));
        let files = files.chain(self.config_fragment.iter().map(|file| ("fragment:", file)));
        for (kind, piece) in files.chain(self.set.iter().map(|set| ("", set))) {
            if kind.is_empty() && !piece.starts_with("CONFIG_") {
                return Err(Failure::Input(miette::miette!(
                    "--set {piece:?}: an option's name begins with CONFIG_"
                )));
            }
            if piece.contains('+') {
                return Err(Failure::Input(miette::miette!(
                    "{piece:?} has a `+`, which parts a kernel's word: put an option into a \
                     fragment, and give files another name"
                )));
            }
            word.push('+');
            word.push_str(kind);
            word.push_str(piece);
        }
        Ok(word)
    }
}

#[derive(Debug, Subcommand)]
pub(super) enum CacheCommand {
    /// Lists entries.
    List,
    /// Removes entries that were not used for long, and what killed runs left behind.
    Prune {
        /// Removes what was not used for so many days.
        #[arg(long, default_value_t = 30)]
        days: u64,
        /// Then removes the least recently used until no more than this is left, such as
        /// 10GiB.
        #[arg(long)]
        size: Option<bytesize::ByteSize>,
    },
}

/// How guests run.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct Platform {
    /// `exact` is deterministic on any machine; `live` runs in real time.
    #[arg(long, value_enum, default_value_t = ModeName::Exact)]
    pub(super) mode: ModeName,
    /// The accelerator. `auto` takes KVM in live mode where it works, and says what ran.
    #[arg(long, value_enum, default_value_t = AccelName::Auto)]
    pub(super) accel: AccelName,
    /// Exact mode's `-icount shift=N`; by default the scenario's.
    #[arg(long, value_name = "N")]
    pub(super) shift: Option<u8>,
    /// A parameter added to the kernel's command line; can be given again.
    #[arg(long, value_name = "PARAMETER")]
    pub(super) append: Vec<String>,
    /// Boots every guest cold, instead of restoring one that was booted once and saved. The
    /// results are the same; only time differs.
    #[arg(long)]
    pub(super) cold: bool,
    /// Runs every guest, instead of taking results that are cached from runs of the same
    /// inputs, and holds what they give against these. `--cold` does so as well.
    #[arg(long)]
    pub(super) fresh: bool,
    /// Guests at a time; by default one for each processor in exact mode. All commands that
    /// use one cache share the processors and the memory.
    #[arg(long, short, value_parser = jobs)]
    pub(super) jobs: Option<usize>,
}

/// How long guests may take, for commands that choose among scenarios.
#[derive(Debug, Clone, Copy, clap::Args)]
pub(super) struct Budget {
    /// Runs only the scenarios that tell most within so many seconds, by how long they took
    /// before; building is not counted. What is left out is named, and not judged.
    #[arg(long = "budget", value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) seconds: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum ModeName {
    Exact,
    Live,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum AccelName {
    Auto,
    Kvm,
    Tcg,
}

/// A number of things at a time, from 1.
fn jobs(text: &str) -> Result<usize, String> {
    let most = 4096;
    match text.parse() {
        Ok(jobs) if (1..=most).contains(&jobs) => Ok(jobs),
        _ => Err(format!("{text:?} is no number from 1 to {most}")),
    }
}

impl Platform {
    /// A runner that uses the cache as the options say.
    pub(super) fn check(&self, workspace: &Workspace) -> Result<RunnerBuilder, Failure> {
        let live = self.mode == ModeName::Live;
        let memory = if self.fresh || self.cold {
            CachePolicy::Fresh
        } else {
            CachePolicy::All(Share::from_environment().map_err(Failure::input)?)
        };
        let checked = Runner::check(workspace, live, self.accel.into())?;
        let checked = checked.cold(self.cold).jobs(self.jobs);
        Ok(checked.caching(memory))
    }
}

impl From<AccelName> for AcceleratorChoice {
    fn from(name: AccelName) -> AcceleratorChoice {
        match name {
            AccelName::Auto => AcceleratorChoice::Auto,
            AccelName::Kvm => AcceleratorChoice::Kvm,
            AccelName::Tcg => AcceleratorChoice::Tcg,
        }
    }
}

#[derive(Debug, clap::Args)]
pub(super) struct RunArgs {
    /// Scenarios: `suite/scenario`, a whole suite, or a .yaml file. All if none is given.
    pub(super) scenarios: Vec<String>,
    /// The kernel: a shipped name, a definition's .yaml, an image (vmlinux, bzImage), a
    /// source folder, and with `+PATCH` patches on top: a diff, mails, a folder, or revisions
    /// `A..B`; `+revert:PATCH` takes them back.
    /// A tarball is a kernel, too, and so is a tarball's `https://...#sha256=...`.
    /// A distribution's kernel package (.deb) needs no build. `+CONFIG_X=y` sets an option.
    #[arg(long, short)]
    pub(super) kernel: String,
    /// The replicate: another seed gives another, equally repeatable run.
    #[arg(long, default_value_t = 1)]
    pub(super) seed: u64,
    /// Runs each scenario with so many seeds, from `--seed` on. In live mode 3 unless said.
    #[arg(long)]
    pub(super) repeat: Option<u64>,
    #[command(flatten)]
    pub(super) configuring: Configuring,
    #[command(flatten)]
    pub(super) platform: Platform,
    #[command(flatten)]
    pub(super) budget: Budget,
}

#[derive(Debug, clap::Args)]
pub(super) struct CompareArgs {
    /// The kernel without the change.
    pub(super) base: String,
    /// The kernel with it, such as `linux-6.12+fix.patch`.
    pub(super) patched: String,
    /// Scenarios: `suite/scenario`, a whole suite, or a .yaml file. All if none is given.
    pub(super) scenarios: Vec<String>,
    /// Number of seeds over which verdicts are taken.
    #[arg(long, default_value_t = 3)]
    pub(super) seeds: u64,
    #[command(flatten)]
    pub(super) configuring: Configuring,
    #[command(flatten)]
    pub(super) platform: Platform,
    #[command(flatten)]
    pub(super) budget: Budget,
}

#[derive(Debug, clap::Args)]
pub(super) struct WatchArgs {
    /// Scenarios: `suite/scenario`, a whole suite, or a .yaml file. All if none is given.
    pub(super) scenarios: Vec<String>,
    /// The kernel tree that is edited. It is only read.
    #[arg(long, value_name = "DIR")]
    pub(super) tree: Utf8PathBuf,
    /// Number of seeds over which verdicts are taken.
    #[arg(long, default_value_t = 1)]
    pub(super) seeds: u64,
    #[command(flatten)]
    pub(super) platform: Platform,
}

#[derive(Debug, clap::Args)]
pub(super) struct CheckArgs {
    /// The series: diffs, mails, an mbox, a folder of these, or a revision range A..B of the
    /// repository that the command is given in.
    #[arg(required = true, value_name = "PATCH")]
    pub(super) series: Vec<String>,
    /// The kernel that it is for: a shipped name, a definition's .yaml, or a source folder.
    #[arg(long, short, value_name = "KERNEL")]
    pub(super) base: String,
    /// Scenarios: `suite/scenario`, a whole suite, or a .yaml file. All if none is given.
    #[arg(long = "scenario", short = 'S', value_name = "SCENARIO", num_args = 1..)]
    pub(super) scenarios: Vec<String>,
    /// Of these scenarios only those whose declared subject, a function or a file, the
    /// series touches. If there is none, nothing is run, and the exit code is 3.
    #[arg(long)]
    pub(super) touching: bool,
    /// Takes the patches back, from the last to the first, instead of applying them.
    #[arg(long)]
    pub(super) revert: bool,
    /// Builds, boots and runs each patch on top of those before it, too.
    #[arg(long)]
    pub(super) each: bool,
    /// Runs the scenarios a second time, on slower kernels that check themselves (lockdep,
    /// `DEBUG_VM`, KASAN, kmemleak), with one seed. Only what these kernels print counts, and
    /// no counter.
    #[arg(long)]
    pub(super) debug: bool,
    /// Does not build the patched kernel once more with gcov, to tell which changed lines ran.
    #[arg(long)]
    pub(super) no_coverage: bool,
    /// Runs each scenario once more on both kernels with trace events, and shows the first
    /// in which they differ.
    #[arg(long)]
    pub(super) trace: bool,
    /// Prints the text to paste under a patch's `---` line, instead of the report.
    #[arg(long)]
    pub(super) paste: bool,
    /// Number of seeds over which verdicts are taken.
    #[arg(long, default_value_t = 3)]
    pub(super) seeds: u64,
    #[command(flatten)]
    pub(super) platform: Platform,
    #[command(flatten)]
    pub(super) budget: Budget,
}

pub(super) async fn dispatch(
    args: &Args,
    ui: &Ui,
    cancel: &CancellationToken,
) -> Result<u8, Failure> {
    match &args.command {
        Command::Doctor => doctor::doctor(args.json),
        Command::List => list::list(args.json),
        Command::Kernel { command } => kernel::kernel(command, args.json, ui, cancel).await,
        Command::Run(run) => run::run(run, args.json, ui, cancel).await,
        Command::Compare(compare) => compare::compare(compare, args.json, ui, cancel).await,
        Command::Watch(watch) => watch::watch(watch, args.json, ui, cancel).await,
        Command::Check(check) => check::check(check, args.json, ui, cancel).await,
        Command::Bisect(bisect) => bisect::bisect(bisect, args.json, ui, cancel).await,
        Command::Judge(judge) => judge::judge(judge, args.json, ui, cancel).await,
        Command::Replay { run } => replay::replay(run, args.json, ui, cancel).await,
        Command::Bundle { run, output } => bundle::bundle(run, output.as_deref(), args.json),
        Command::Schema => generate::schema(),
        Command::Cache { command } => cache::cache(command.as_ref(), args.json),
        Command::Completions { shell } => generate::completions(*shell),
        Command::Man { folder } => generate::manual(folder),
    }
}
