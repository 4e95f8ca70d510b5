//! `numalab cache`.

use std::time::{Duration, SystemTime};

use bytesize::ByteSize;
use numalab_kernels::cache::{Part, Prune, Usage};

use super::args::CacheCommand;
use super::{Failure, print};
use crate::workspace::Workspace;

/// Parts whose entries are many and small: they are counted, and named in JSON alone.
const MANY: [Part; 2] = [Part::CachedRuns, Part::Durations];

pub(super) fn cache(command: Option<&CacheCommand>, json: bool) -> Result<u8, Failure> {
    let workspace = Workspace::open()?;
    match command {
        None | Some(CacheCommand::List) => {
            let entries = workspace
                .cache
                .list()
                .map_err(|error| Failure::kernel(error.into()))?;
            if json {
                let entries: Vec<_> = entries.iter().map(entry_json).collect();
                return print(&format!("{:#}\n", serde_json::Value::from(entries)));
            }
            let total: u64 = entries.iter().map(|entry| entry.bytes).sum();
            let mut text = format!("{}\n", workspace.cache.root().display());
            let (many, few): (Vec<&Usage>, Vec<&Usage>) =
                entries.iter().partition(|entry| MANY.contains(&entry.part));
            for entry in few {
                text.push_str(&line(entry));
            }
            for part in MANY {
                let of_part = many.iter().filter(|entry| entry.part == part);
                let (count, bytes) = of_part.fold((0_u64, 0_u64), |(count, bytes), entry| {
                    (count + 1, bytes + entry.bytes)
                });
                if count > 0 {
                    let bytes = ByteSize(bytes);
                    text.push_str(&format!("  {part:9} {count} entries  {bytes}\n"));
                }
            }
            text.push_str(&format!("{} entries, {}\n", entries.len(), ByteSize(total)));
            print(&text)
        }
        Some(CacheCommand::Prune { days, size }) => {
            let size = size.as_ref().map(|size| size.as_u64());
            let prune = Prune {
                older_than: Some(Duration::from_secs(days * 24 * 3600)),
                at_most: size,
                dry_run: false,
            };
            let pruned = workspace
                .cache
                .prune(&prune)
                .map_err(|error| Failure::kernel(error.into()))?;
            let mut text = String::new();
            for entry in &pruned.removed {
                text.push_str(&format!("removed {}", line(entry).trim_start()));
            }
            for entry in &pruned.kept_in_use {
                text.push_str(&format!("in use, kept: {}", line(entry).trim_start()));
            }
            let removed = pruned.removed.len();
            text.push_str(&format!(
                "{removed} entries removed, {} half-made ones swept, {} left\n",
                pruned.swept,
                ByteSize(pruned.left)
            ));
            print(&text)
        }
    }
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
