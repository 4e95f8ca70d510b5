//! `numalab cache`.

use std::time::{Duration, SystemTime};

use bytesize::ByteSize;
use numalab_kernels::KernelError;
use numalab_kernels::cache::{Part, Prune, Usage};

use super::context::{Context, print};
use super::exit::{Failure, GOOD};
use crate::workspace::Workspace;

/// Parts with many small entries: the text gives their number, JSON lists them all.
const MANY: [Part; 2] = [Part::CachedRuns, Part::Durations];

pub(super) const HELP: &str = "\
Exit codes: 0 listed or pruned, 3 the cache cannot be used.

Example: numalab cache prune --days 7 --size 20GiB";

#[derive(Debug, clap::Subcommand)]
pub(super) enum CacheCommand {
    /// List entries.
    List,
    /// Remove entries that have not been used for long, and what killed runs left behind.
    Prune {
        /// Remove entries that have not been used for this many days.
        #[arg(long, default_value_t = 30)]
        days: u64,
        /// Then remove the least recently used entries until at most this much is left, such as
        /// 10GiB.
        #[arg(long)]
        size: Option<ByteSize>,
    },
}

pub(super) fn cache(command: Option<&CacheCommand>, context: &Context) -> Result<u8, Failure> {
    let workspace = Workspace::open()?;
    match command {
        None | Some(CacheCommand::List) => list(&workspace, context)?,
        Some(CacheCommand::Prune { days, size }) => prune(&workspace, *days, *size)?,
    }
    Ok(GOOD)
}

fn list(workspace: &Workspace, context: &Context) -> Result<(), Failure> {
    let entries = workspace.cache.list().map_err(KernelError::from)?;
    let all: Vec<_> = entries.iter().map(entry_json).collect();
    context.print(&all, || {
        let total: u64 = entries.iter().map(|entry| entry.bytes).sum();
        let mut text = format!("{}\n", workspace.cache.root().display());
        let (many, few): (Vec<&Usage>, Vec<&Usage>) =
            entries.iter().partition(|entry| MANY.contains(&entry.part));
        text.extend(few.into_iter().map(line));
        for part in MANY {
            let sizes = many.iter().filter(|entry| entry.part == part);
            let sizes: Vec<u64> = sizes.map(|entry| entry.bytes).collect();
            if !sizes.is_empty() {
                let bytes = ByteSize(sizes.iter().sum());
                text.push_str(&format!("  {part:9} {} entries  {bytes}\n", sizes.len()));
            }
        }
        text.push_str(&format!("{} entries, {}\n", entries.len(), ByteSize(total)));
        text
    })
}

fn prune(workspace: &Workspace, days: u64, size: Option<ByteSize>) -> Result<(), Failure> {
    let prune = Prune {
        older_than: Some(Duration::from_secs(days * 24 * 3600)),
        at_most: size.map(|size| size.as_u64()),
        dry_run: false,
    };
    let pruned = workspace.cache.prune(&prune).map_err(KernelError::from)?;
    let mut text = String::new();
    for entry in &pruned.removed {
        text.push_str(&format!("removed {}", line(entry).trim_start()));
    }
    for entry in &pruned.kept_in_use {
        text.push_str(&format!("in use, kept: {}", line(entry).trim_start()));
    }
    text.push_str(&format!(
        "{} entries removed, {} incomplete ones removed, {} left\n",
        pruned.removed.len(),
        pruned.swept,
        ByteSize(pruned.left)
    ));
    print(&text)
}

fn days_ago(entry: &Usage) -> u64 {
    let age = SystemTime::now()
        .duration_since(entry.last_used)
        .unwrap_or_default();
    age.as_secs() / (24 * 3600)
}

fn line(entry: &Usage) -> String {
    let age = match days_ago(entry) {
        0 => "used today".to_owned(),
        1 => "used yesterday".to_owned(),
        days => format!("used {days} days ago"),
    };
    format!(
        "  {:9} {}  {}  {age}\n",
        entry.part.name(),
        entry.name,
        ByteSize(entry.bytes)
    )
}

fn entry_json(entry: &Usage) -> serde_json::Value {
    serde_json::json!({
        "part": entry.part.name(),
        "name": entry.name,
        "bytes": entry.bytes,
        "unused-days": days_ago(entry),
        "in-use": entry.in_use,
        "path": entry.path.to_string_lossy(),
    })
}
