//! A new object tree for gcov from the one of the same kernel without it, so that the first
//! such build takes seconds, too.
//!
//! kbuild compiles an object anew if its command changed, or an option that one of its files
//! mentions. `CONFIG_CONSTRUCTORS`, which gcov selects, is mentioned in `linux/module.h`, and
//! so almost everywhere, but there it concerns modules alone.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::OPTION;
use crate::cache::CacheError;

/// What gcov changes in a configuration and code depends on.
const OPTIONS: [&str; 2] = [OPTION, "CONFIG_CONSTRUCTORS"];

/// The file that mentions one of [`OPTIONS`] for the sake of modules.
const OF_MODULES: &str = "include/linux/module.h";

/// Makes a copied object tree one that lies where it lies now: the build of the kernel's own
/// tools notes absolute paths.
pub(crate) fn seed(copy: &Path, original: &Path) -> Result<(), CacheError> {
    let (from, to) = (
        format!("{}/", original.display()),
        format!("{}/", copy.display()),
    );
    each_notes(&copy.join("tools"), &mut |path| {
        let text = fs::read_to_string(path)?;
        if text.contains(&from) {
            let time = fs::metadata(path)?.modified()?;
            fs::write(path, text.replace(&from, &to))?;
            File::options().write(true).open(path)?.set_modified(time)?;
        }
        Ok(())
    })
    .map_err(|error| CacheError::io("write", copy, error))
}

/// After the configuration was written: what depends on the options of gcov is removed, and
/// the options look as if they had been so for ever. Does nothing for a kernel with modules.
pub(crate) fn settle(source: &Path, objects: &Path) -> Result<(), CacheError> {
    let fault = |error| CacheError::io("change", objects, error);
    let config = fs::read_to_string(objects.join(".config")).map_err(fault)?;
    if config.lines().any(|line| line == "CONFIG_MODULES=y") {
        return Ok(());
    }
    let mut contents = HashMap::new();
    let mut stale = Vec::new();
    let wanted: Vec<String> = OPTIONS
        .iter()
        .map(|option| option.replacen("CONFIG_", "include/config/", 1))
        .collect();
    each_notes(objects, &mut |path| {
        let text = fs::read_to_string(path)?;
        let depends = wanted
            .iter()
            .any(|option| text.contains(&format!("{option})")));
        if depends && really(&text, source, &mut contents) {
            stale.extend(target(path));
        }
        Ok(())
    })
    .map_err(fault)?;
    for path in stale {
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(fault(error)),
            _ => {}
        }
    }
    let long_ago = SystemTime::UNIX_EPOCH + Duration::from_secs(1);
    for option in &wanted {
        match File::options().write(true).open(objects.join(option)) {
            Ok(file) => file.set_modified(long_ago).map_err(fault)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(fault(error)),
        }
    }
    Ok(())
}

/// Whether a file that the notes name, other than [`OF_MODULES`], mentions an option.
fn really(notes: &str, source: &Path, contents: &mut HashMap<PathBuf, bool>) -> bool {
    let files = notes
        .split([' ', '\n', '\\'])
        .map(Path::new)
        .filter(|path| path.starts_with(source) && !path.ends_with(OF_MODULES));
    files.into_iter().any(|path| {
        *contents.entry(path.to_owned()).or_insert_with(|| {
            fs::read(path).is_ok_and(|bytes| {
                let text = String::from_utf8_lossy(&bytes);
                OPTIONS.iter().any(|option| text.contains(option))
            })
        })
    })
}

/// The file that notes are of: `x.o` of `.x.o.cmd`.
fn target(notes: &Path) -> Option<PathBuf> {
    let name = notes.file_name()?.to_str()?;
    let name = name.strip_prefix('.')?.strip_suffix(".cmd")?;
    Some(notes.with_file_name(name))
}

fn each_notes(folder: &Path, work: &mut dyn FnMut(&Path) -> io::Result<()>) -> io::Result<()> {
    let items = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        items => items?,
    };
    for item in items {
        let item = item?;
        let path = item.path();
        if item.file_type()?.is_dir() {
            each_notes(&path, work)?;
        } else if path.extension().is_some_and(|end| end == "cmd") && target(&path).is_some() {
            work(&path)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_really_depends_on_gcov_is_compiled_anew() {
        let folder = tempfile::tempdir().unwrap();
        let (source, objects) = (folder.path().join("src"), folder.path().join("obj"));
        let write = |path: PathBuf, text: &str| {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write(source.join("init/main.c"), "#ifdef CONFIG_CONSTRUCTORS\n");
        write(source.join("init/other.c"), "int x;\n");
        write(source.join(OF_MODULES), "#ifdef CONFIG_CONSTRUCTORS\n");
        write(objects.join(".config"), "CONFIG_GCOV_KERNEL=y\n");
        write(objects.join("include/config/CONSTRUCTORS"), "");
        for name in ["main", "other"] {
            let notes = format!(
                "source_x := {0}/init/{name}.c\n\ndeps_x := \\\n  {0}/{OF_MODULES} \\\n    \
                 $(wildcard include/config/CONSTRUCTORS) \\\n",
                source.display()
            );
            write(objects.join(format!("init/.{name}.o.cmd")), &notes);
            write(objects.join(format!("init/{name}.o")), "");
        }
        settle(&source, &objects).unwrap();
        assert!(!objects.join("init/main.o").exists());
        assert!(objects.join("init/other.o").exists());
        let option = fs::metadata(objects.join("include/config/CONSTRUCTORS")).unwrap();
        let object = fs::metadata(objects.join("init/other.o")).unwrap();
        assert!(option.modified().unwrap() < object.modified().unwrap());
    }

    #[test]
    fn a_copied_tree_names_itself() {
        let folder = tempfile::tempdir().unwrap();
        let copy = folder.path().join("obj-b");
        let notes = copy.join("tools/.x.o.cmd");
        fs::create_dir_all(copy.join("tools")).unwrap();
        let original = folder.path().join("obj-a");
        fs::write(&notes, format!("gcc {}/tools/x.o\n", original.display())).unwrap();
        seed(&copy, &original).unwrap();
        let text = fs::read_to_string(&notes).unwrap();
        assert_eq!(text, format!("gcc {}/tools/x.o\n", copy.display()));
    }
}
