//! The cache folder: where it is, its parts, and how entries come and go.
//!
//! An entry is one folder in one of the parts. It is made under a temporary name and
//! published by one rename, so that nobody mistakes what a killed process leaves behind
//! for an entry. A lock file inside shows who uses it.

mod entry;
mod error;
mod folder;
mod lock;
mod part;
mod prune;
mod temporary;

pub(crate) use entry::write_json;
pub use entry::{CachedEntry, Lookup, Manifest};
pub use error::{CACHE_VARIABLE, CacheError};
pub use folder::Cache;
pub use lock::{EntryLock, Wait};
pub use part::Part;
pub use prune::{Prune, Pruned, Usage};
pub use temporary::TempEntry;
