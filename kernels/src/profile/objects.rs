//! Which objects a file is compiled into, from what fixdep notes beside each object
//! (`.X.o.cmd`, `scripts/basic/fixdep.c`).

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::cache::CacheError;

/// The most objects with counting code. A header such as `linux/mm.h` is part of most of a
/// kernel; then the subject's own come first.
const MOST: usize = 48;

/// Folders whose objects are taken first: what numalab is about.
const FIRST: [&str; 2] = ["kernel/sched/", "mm/"];

/// Folders of programs that are no part of the running kernel.
const OTHERS: [&str; 5] = [
    "scripts/",
    "tools/",
    "arch/x86/boot/",
    "arch/x86/entry/vdso/",
    "arch/x86/realmode/",
];

/// Whether a kernel counts what runs of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Counted {
    /// Wherever it is compiled.
    Everywhere,
    /// In some of the objects that it is compiled into, and not in so many others: a line
    /// that no guest has run in the former may have run in the latter.
    InPart {
        /// The others.
        not_in: usize,
    },
    /// Nowhere, for the kernel's own Makefile excludes these objects from gcov.
    Excluded,
    /// Nowhere: no C code of this configuration includes it.
    NotCompiled,
}

/// Which objects are to count.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct ProfilePlan {
    /// Without `.o`, in the order of their names.
    pub(crate) objects: Vec<String>,
    files: BTreeMap<String, Counted>,
}

impl ProfilePlan {
    /// Whether a file's lines are counted.
    pub(crate) fn counted(&self, file: &str) -> Counted {
        let known = self.files.get(file).copied();
        known.unwrap_or(Counted::NotCompiled)
    }

    /// Chooses the objects for `touched` files by what an object tree's last build notes.
    pub(crate) fn choose(
        source: &Path,
        objects: &Path,
        touched: &BTreeSet<&String>,
    ) -> Result<ProfilePlan, CacheError> {
        let mut including: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
        let mut names = Vec::new();
        list(objects, objects, &mut names)
            .map_err(|error| CacheError::io("list", objects, error))?;
        let paths: Vec<(&str, String)> = touched
            .iter()
            .map(|file| (file.as_str(), format!("{}/{file}", source.display())))
            .collect();
        for (object, notes) in &names {
            let text =
                fs::read_to_string(notes).map_err(|error| CacheError::io("read", notes, error))?;
            // Assembly includes headers, too.
            let mut lines = text.lines().filter(|line| line.starts_with("source_"));
            if !lines.any(|line| line.ends_with(".c")) {
                continue;
            }
            for (file, path) in &paths {
                if mentions(&text, path) {
                    including.entry(file).or_default().insert(object.clone());
                }
            }
        }
        for file in touched.iter().map(|file| file.as_str()) {
            // A new file's object is not there yet.
            if let Some(stem) = file.strip_suffix(".c")
                && !including.contains_key(file)
                && source.join(file).is_file()
                && !OTHERS.iter().any(|folder| file.starts_with(folder))
            {
                including.insert(file, [stem.to_owned()].into());
            }
        }
        Ok(ProfilePlan::of(including, |object| {
            excludes(source, object)
        }))
    }

    fn of(
        including: BTreeMap<&str, BTreeSet<String>>,
        excluded: impl Fn(&str) -> bool,
    ) -> ProfilePlan {
        let mut wanted: Vec<(usize, String)> = Vec::new();
        for (file, objects) in &including {
            for object in objects.iter().filter(|object| !excluded(object)) {
                let rank = match file.ends_with(".c") {
                    true => 0,
                    false if FIRST.iter().any(|folder| object.starts_with(folder)) => 1,
                    false => 2,
                };
                wanted.push((rank, object.clone()));
            }
        }
        wanted.sort();
        let mut chosen = BTreeSet::new();
        for (_, object) in wanted {
            if chosen.len() < MOST {
                chosen.insert(object);
            }
        }
        let counted = |objects: &BTreeSet<String>| {
            let left: usize = objects.difference(&chosen).count();
            if left == 0 {
                Counted::Everywhere
            } else if left < objects.len() {
                Counted::InPart { not_in: left }
            } else {
                Counted::Excluded
            }
        };
        let files = including
            .iter()
            .map(|(file, objects)| ((*file).to_owned(), counted(objects)))
            .collect();
        ProfilePlan {
            files,
            objects: chosen.into_iter().collect(),
        }
    }
}

/// Whether fixdep's notes name a file. A path ends at a space or a line's end.
fn mentions(notes: &str, path: &str) -> bool {
    notes.match_indices(path).any(|(at, _)| {
        let next = notes[at + path.len()..].chars().next();
        next.is_none_or(char::is_whitespace)
    })
}

/// The built-in objects of C code below a folder, without `.o`, with their notes.
fn list(
    root: &Path,
    folder: &Path,
    names: &mut Vec<(String, std::path::PathBuf)>,
) -> io::Result<()> {
    for item in fs::read_dir(folder)? {
        let item = item?;
        let path = item.path();
        let kind = item.file_type()?;
        let Some(name) = path.strip_prefix(root).ok().and_then(Path::to_str) else {
            continue;
        };
        if kind.is_dir() {
            if !OTHERS.iter().any(|other| *other == format!("{name}/")) {
                list(root, &path, names)?;
            }
            continue;
        }
        let (folder, last) = name.rsplit_once('/').unwrap_or(("", name));
        if let Some(stem) = last
            .strip_prefix('.')
            .and_then(|last| last.strip_suffix(".o.cmd"))
            // What is linked of others has notes, too, and no object file of C code.
            .filter(|stem| path.with_file_name(format!("{stem}.o")).is_file())
        {
            let object = if folder.is_empty() {
                stem.to_owned()
            } else {
                format!("{folder}/{stem}")
            };
            names.push((object, path));
        }
    }
    Ok(())
}

/// Whether the Makefile of an object's folder excludes it from gcov.
fn excludes(source: &Path, object: &str) -> bool {
    let (folder, name) = object.rsplit_once('/').unwrap_or((".", object));
    let all = "GCOV_PROFILE";
    let one = format!("GCOV_PROFILE_{name}.o");
    ["Makefile", "Kbuild"].iter().any(|file| {
        let text = fs::read_to_string(source.join(folder).join(file)).unwrap_or_default();
        text.lines().any(|line| {
            let Some((left, right)) = line.split_once('=') else {
                return false;
            };
            let left = left.trim_end_matches([':', '+', '?']).trim();
            (left == all || left == one) && right.trim().starts_with('n')
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn including(file: &'static str, objects: &[&str]) -> (&'static str, BTreeSet<String>) {
        (
            file,
            objects.iter().map(|name| (*name).to_owned()).collect(),
        )
    }

    #[test]
    fn a_common_header_is_counted_in_part() {
        let many: Vec<String> = (0..100).map(|n| format!("drivers/d{n}")).collect();
        let mut all: Vec<&str> = many.iter().map(String::as_str).collect();
        all.extend(["mm/memory", "kernel/sched/fair"]);
        let plan = ProfilePlan::of(
            [
                including("include/linux/mm.h", &all),
                including("mm/mempolicy.c", &["mm/mempolicy"]),
            ]
            .into(),
            |_| false,
        );
        assert_eq!(plan.objects.len(), MOST);
        for object in ["mm/mempolicy", "mm/memory", "kernel/sched/fair"] {
            assert!(plan.objects.iter().any(|name| name == object), "{object}");
        }
        assert_eq!(plan.counted("mm/mempolicy.c"), Counted::Everywhere);
        assert_eq!(
            plan.counted("include/linux/mm.h"),
            Counted::InPart { not_in: 102 - 47 }
        );
        assert_eq!(plan.counted("mm/Kconfig"), Counted::NotCompiled);
    }

    #[test]
    fn a_name_that_only_begins_alike_is_another_file() {
        let notes = "deps_x.o := \\\n  /s/mm/a.h \\\n  /s/mm/b.c\n";
        assert!(mentions(notes, "/s/mm/a.h") && mentions(notes, "/s/mm/b.c"));
        assert!(!mentions(notes, "/s/mm/b") && !mentions(notes, "/s/mm/a"));
    }

    #[test]
    fn a_makefile_may_exclude_a_folder_or_an_object() {
        let source = tempfile::tempdir().unwrap();
        let write = |folder: &str, text: &str| {
            let folder = source.path().join(folder);
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("Makefile"), text).unwrap();
        };
        write("a", "obj-y := x.o\nGCOV_PROFILE := n\n");
        write("b", "GCOV_PROFILE_x.o := n\nGCOV_PROFILE_y.o := y\n");
        assert!(excludes(source.path(), "a/x"));
        assert!(excludes(source.path(), "b/x"));
        assert!(!excludes(source.path(), "b/y") && !excludes(source.path(), "c/x"));
        let plan = ProfilePlan::of([including("b/x.c", &["b/x"])].into(), |object| {
            excludes(source.path(), object)
        });
        assert_eq!(plan.counted("b/x.c"), Counted::Excluded);
        assert!(plan.objects.is_empty());
    }
}
