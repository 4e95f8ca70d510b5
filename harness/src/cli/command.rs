//! The command line: global options, the subcommands, and which function runs each.

use clap::{CommandFactory as _, Parser, Subcommand};

use super::context::Context;
use super::exit::Failure;
use super::{
    bisect, bundle, cache, check, compare, doctor, generate, judge, kernel, list, replay, run,
    watch,
};

/// Test Linux automatic NUMA balancing by exact counters, in guests with virtual NUMA nodes.
#[derive(Debug, Parser)]
#[command(name = "numalab", version, max_term_width = 100, after_help = HELP)]
pub struct Args {
    /// Show no progress.
    #[arg(long, short, global = true)]
    pub(super) quiet: bool,
    /// Print results as JSON.
    #[arg(long, global = true)]
    pub(super) json: bool,
    #[command(subcommand)]
    command: Command,
}

const HELP: &str = "Three uses:
  before a patch is sent    numalab check fix.patch --base linux-6.12
  which commit broke it     numalab bisect --repo DIR --good A --bad B SUITE/SCENARIO
  in CI                     cargo nextest run (in a clone of numalab)

Exit codes: 0 every verdict is pass (compare, check: nothing broken or unclear), 1 fail or \
broken, 2 wrong input, 3 inconclusive or unclear, 130 interrupted. Each command's --help lists \
its own.

Environment:
  NUMALAB_CACHE           kernels, saved guests and cached results [default: the user's cache]
  NUMALAB_RUNS            run folders [default: target/numalab/runs]
  NUMALAB_QEMU            the QEMU to use [default: qemu-system-x86_64 in PATH]
  NUMALAB_CC              the compiler for kernels [default: gcc]
  NUMALAB_ROOT            the project's folder, with suites/ and kernels/
  NUMALAB_PROVE_AGAIN=N   run one in N cached results again [default: 50; 1: all, 0: none]
  NUMALAB_DRAW=N          repeat the random choice of these";

#[derive(Debug, Subcommand)]
enum Command {
    /// Check what this machine can do, what is missing, and how to install it.
    #[command(after_help = doctor::HELP)]
    Doctor,
    /// List scenarios and kernels.
    #[command(after_help = list::HELP)]
    List,
    /// Build kernels.
    Kernel {
        #[command(subcommand)]
        command: kernel::KernelCommand,
    },
    /// Run scenarios on one kernel.
    #[command(after_help = run::HELP)]
    Run(run::RunArgs),
    /// Run scenarios on two kernels and report what changed.
    #[command(after_help = compare::HELP)]
    Compare(compare::CompareArgs),
    /// Build a kernel tree and run scenarios on it whenever a file is saved.
    #[command(after_help = watch::HELP)]
    Watch(watch::WatchArgs),
    /// Check a patch or a series before sending it: what it fixes and what it breaks.
    #[command(after_help = check::HELP)]
    Check(check::CheckArgs),
    /// Find the commit that broke a scenario.
    #[command(after_help = bisect::HELP)]
    Bisect(bisect::BisectArgs),
    /// Judge the commit that `git bisect run numalab judge SCENARIO` asks about.
    #[command(after_help = judge::HELP)]
    Judge(judge::JudgeArgs),
    /// Repeat a recorded run and check that its records are identical.
    #[command(after_help = replay::HELP)]
    Replay(replay::ReplayArgs),
    /// Pack a recorded run into an archive that repeats it with QEMU alone.
    #[command(after_help = bundle::HELP)]
    Bundle(bundle::BundleArgs),
    /// Print the scenario language, as a JSON schema for editors or as a reference.
    #[command(after_help = generate::SCHEMA_HELP)]
    Schema {
        /// The format.
        #[arg(long, value_enum, default_value = "json")]
        format: generate::SchemaFormat,
    },
    /// List or prune the cache.
    #[command(after_help = cache::HELP)]
    Cache {
        #[command(subcommand)]
        command: Option<cache::CacheCommand>,
    },
    /// Print completions for a shell.
    #[command(after_help = generate::COMPLETIONS_HELP)]
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
    /// Write manual pages into a folder.
    #[command(after_help = generate::MAN_HELP)]
    Man {
        /// The folder.
        folder: camino::Utf8PathBuf,
    },
}

impl Args {
    /// Runs the subcommand.
    pub(super) async fn run(&self, context: &Context) -> Result<u8, Failure> {
        match &self.command {
            Command::Doctor => doctor::doctor(context),
            Command::List => list::list(context),
            Command::Kernel { command } => kernel::kernel(command, context),
            Command::Run(args) => run::run(args, context).await,
            Command::Compare(args) => compare::compare(args, context).await,
            Command::Watch(args) => watch::watch(args, context).await,
            Command::Check(args) => check::check(args, context).await,
            Command::Bisect(args) => bisect::bisect(args, context).await,
            Command::Judge(args) => judge::judge(args, context).await,
            Command::Replay(args) => replay::replay(args, context).await,
            Command::Bundle(args) => bundle::bundle(args, context),
            Command::Schema { format } => generate::schema(*format),
            Command::Cache { command } => cache::cache(command.as_ref(), context),
            Command::Completions { shell } => generate::completions(Args::command(), *shell),
            Command::Man { folder } => generate::manual(Args::command(), folder),
        }
    }
}
