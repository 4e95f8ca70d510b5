//! Guards: the options without which a line of a source file is not compiled.
//!
//! Read from the Makefiles along the file's path and from the `#if`s around the line, as
//! far as they are plain; what cannot be told is left out. Nothing is built for it, and no
//! expression is evaluated.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use crate::cache::{Cache, Part};
use crate::source::Identity;
use crate::store::Kernel;

/// A kernel's source in the cache, as far as it still is there.
#[derive(Debug, Clone)]
pub struct Source {
    entry: PathBuf,
}

/// What is known of a file of a kernel's source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Compiled {
    /// It is nothing that a compiler takes.
    NoCode,
    /// It is a header.
    Header,
    /// It needs these options, by its Makefiles.
    With(BTreeSet<String>),
    /// No Makefile that could be read names it.
    Unknown,
}

impl Source {
    /// Finds the source of a kernel that was built in the cache; `None` if it was not, or
    /// is pruned.
    pub fn of(cache: &Cache, kernel: &Kernel) -> Option<Source> {
        let identity = &kernel.manifest.built.as_ref()?.source;
        let entries = fs::read_dir(cache.part(Part::Trees)).ok()?;
        let is_it = |entry: &PathBuf| {
            let text = fs::read(entry.join("source.json")).ok();
            let found = text.and_then(|text| serde_json::from_slice::<Identity>(&text).ok());
            found.is_some_and(|found| found.digest == identity.digest)
        };
        let mut entries = entries.flatten().map(|entry| entry.path());
        entries.find(is_it).map(|entry| Source { entry })
    }

    /// A file's text without any patch.
    fn read(&self, name: &str) -> Option<String> {
        let pristine = self.entry.join("pristine/files").join(name);
        let bytes = fs::read(pristine).or_else(|_| fs::read(self.entry.join("src").join(name)));
        Some(String::from_utf8_lossy(&bytes.ok()?).into_owned())
    }

    /// The options that a file needs.
    pub fn compiled(&self, file: &str) -> Compiled {
        compiled(file, &|name| self.read(name))
    }

    /// The options of the `#if`s around a line, from 1, of a file without any patch.
    pub fn around(&self, file: &str, line: u64) -> BTreeSet<String> {
        let text = self.read(file).unwrap_or_default();
        around(&text, line)
    }
}

/// Reads a file of the source.
type Read<'a> = &'a dyn Fn(&str) -> Option<String>;

fn compiled(file: &str, read: Read<'_>) -> Compiled {
    let (folder, name) = file.rsplit_once('/').unwrap_or(("", file));
    let stem = match name.rsplit_once('.') {
        Some((stem, "c" | "S")) => stem,
        Some((_, "h")) => return Compiled::Header,
        _ => return Compiled::NoCode,
    };
    let mut options = BTreeSet::new();
    if !object(folder, &format!("{stem}.o"), read, &mut options, 0) {
        return Compiled::Unknown;
    }
    let mut folder = folder;
    while !folder.is_empty() {
        let (above, name) = folder.rsplit_once('/').unwrap_or(("", folder));
        // A folder of which nothing is found may be named from further up.
        object(above, &format!("{name}/"), read, &mut options, 0);
        folder = above;
    }
    Compiled::With(options)
}

/// The most objects that a composite one may be a part of a part of.
const DEPTH: u32 = 4;

/// Adds what an object or folder needs by the Makefile of a folder; whether it is named.
fn object(
    folder: &str,
    name: &str,
    read: Read<'_>,
    options: &mut BTreeSet<String>,
    depth: u32,
) -> bool {
    let in_folder = |file: &str| match folder {
        "" => file.to_owned(),
        folder => format!("{folder}/{file}"),
    };
    let Some(text) = read(&in_folder("Kbuild")).or_else(|| read(&in_folder("Makefile"))) else {
        return false;
    };
    let mut conditions: Vec<BTreeSet<String>> = Vec::new();
    for line in joined(&text) {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.first() {
            Some(&("ifdef" | "ifeq")) => conditions.push(named(&line)),
            // What holds where an option is not set needs no option.
            Some(&("ifndef" | "ifneq")) => conditions.push(BTreeSet::new()),
            Some(&"else") => {
                conditions.pop();
                conditions.push(BTreeSet::new());
            }
            Some(&"endif") => {
                conditions.pop();
            }
            _ => {}
        }
        let Some((list, objects)) = line.split_once('=') else {
            continue;
        };
        if !objects.split_whitespace().any(|object| object == name) {
            continue;
        }
        let list = list.trim_end_matches(['+', ':', ' ', '\t']).trim();
        let Some((whole, condition)) = list.rsplit_once('-') else {
            continue;
        };
        if !matches!(condition, "y" | "m" | "objs") && named(condition).is_empty() {
            continue;
        }
        let is_part = !matches!(whole, "obj" | "lib" | "core" | "drivers");
        // Of a composite object, or of a list that another one names.
        let wholes = [format!("{whole}.o"), format!("$({whole}-y)")];
        let mut named_further = |name: &String| object(folder, name, read, options, depth + 1);
        if is_part && (depth >= DEPTH || !wholes.iter().any(&mut named_further)) {
            continue;
        }
        options.extend(named(condition));
        options.extend(conditions.into_iter().flatten());
        return true;
    }
    false
}

/// Lines of a Makefile, continued ones as one, without comments.
fn joined(text: &str) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = String::new();
    for piece in text.lines() {
        let piece = piece.split('#').next().unwrap_or_default();
        match piece.strip_suffix('\\') {
            Some(start) => {
                line.push_str(start);
                line.push(' ');
            }
            None => {
                line.push_str(piece);
                lines.push(std::mem::take(&mut line));
            }
        }
    }
    lines.push(line);
    lines
}

/// The options that a text names.
fn named(text: &str) -> BTreeSet<String> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let words = text.split(|c| !is_name(c));
    words
        .filter(|word| word.len() > "CONFIG_".len() && word.starts_with("CONFIG_"))
        .map(str::to_owned)
        .collect()
}

/// The options of the conditions around a line that are plain: `#ifdef CONFIG_X`, `#if`
/// with `defined` or `IS_ENABLED` of one option and nothing else.
fn around(text: &str, line: u64) -> BTreeSet<String> {
    let mut conditions: Vec<BTreeSet<String>> = Vec::new();
    let before = usize::try_from(line.saturating_sub(1)).unwrap_or(usize::MAX);
    for text in text.lines().take(before) {
        let Some(directive) = text.trim_start().strip_prefix('#') else {
            continue;
        };
        let directive = directive.trim_start();
        let word: String = directive
            .chars()
            .take_while(char::is_ascii_alphabetic)
            .collect();
        let names = named(directive);
        let is_plain = names.len() == 1 && !directive.contains(['!', '|', '&', '<', '>']);
        match word.as_str() {
            "ifdef" | "if" if is_plain => conditions.push(names),
            "ifdef" | "if" | "ifndef" => conditions.push(BTreeSet::new()),
            "else" | "elif" => {
                conditions.pop();
                conditions.push(BTreeSet::new());
            }
            "endif" => {
                conditions.pop();
            }
            _ => {}
        }
    }
    conditions.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(file: &str) -> Compiled {
        let read = |name: &str| {
            let text = match name {
                "Kbuild" => "obj-y += mm/ kernel/\nobj-$(CONFIG_NET) += net/\n",
                "mm/Makefile" => {
                    "mmu-y := memory.o\n\
                     mmu-$(CONFIG_MMU) := mmap.o \\\n\tmprotect.o # more\n\
                     obj-y := filemap.o $(mmu-y)\n\
                     obj-$(CONFIG_HUGETLBFS) += hugetlb.o\n\
                     ifdef CONFIG_CROSS\n\
                     obj-y += cross.o\n\
                     else\n\
                     obj-y += other.o\n\
                     endif\n\
                     obj-$(CONFIG_ZPOOL) += zpool.o\n\
                     zpool-objs := pool.o part.o\n"
                }
                "net/Makefile" => "obj-$(CONFIG_INET) += ipv4/\n",
                "net/ipv4/Makefile" => "obj-y := route.o\n",
                _ => return None,
            };
            Some(text.to_owned())
        };
        compiled(file, &read)
    }

    #[track_caller]
    fn needs(file: &str, expected: &[&str]) {
        let expected = expected.iter().map(|name| (*name).to_owned()).collect();
        assert_eq!(options(file), Compiled::With(expected), "{file}");
    }

    #[test]
    fn options_are_those_of_the_makefiles_along_the_path() {
        needs("mm/filemap.c", &[]);
        needs("mm/mprotect.c", &["CONFIG_MMU"]);
        needs("mm/hugetlb.c", &["CONFIG_HUGETLBFS"]);
        needs("mm/cross.c", &["CONFIG_CROSS"]);
        needs("mm/other.c", &[]);
        // A part of a composite object needs what that needs.
        needs("mm/part.c", &["CONFIG_ZPOOL"]);
        needs("net/ipv4/route.c", &["CONFIG_INET", "CONFIG_NET"]);
        assert_eq!(options("mm/nowhere.c"), Compiled::Unknown);
        assert_eq!(options("include/linux/mm.h"), Compiled::Header);
        assert_eq!(options("Documentation/mm/index.rst"), Compiled::NoCode);
    }

    #[test]
    fn conditions_around_a_line_are_those_that_are_plain() {
        let text = "\
#ifdef CONFIG_A
one
#if IS_ENABLED(CONFIG_B)
two
#else
three
#endif
#if defined(CONFIG_C) || defined(CONFIG_D)
four
#endif
#endif
five
";
        let at = |line| around(text, line).into_iter().collect::<Vec<_>>().join(" ");
        assert_eq!(at(2), "CONFIG_A");
        assert_eq!(at(4), "CONFIG_A CONFIG_B");
        assert_eq!(at(6), "CONFIG_A");
        assert_eq!(at(9), "CONFIG_A");
        assert_eq!(at(12), "");
    }
}
