//! Where a kernel's source lies, and work trees of it.

use std::fs;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use numalab_kernels::build::{self, KernelSource};
use numalab_kernels::progress::Silent;
use numalab_kernels::{ErrorKind, KernelError};

use crate::bench::{Bench, change, diff};
use crate::commits::git;

fn source(
    bench: &Bench,
    word: &str,
    work_tree: Option<&Path>,
) -> Result<KernelSource, KernelError> {
    let (cache, kernel) = (bench.cache(), bench.wanted(word));
    let cancel = AtomicBool::new(false);
    build::source(&cache, &kernel, work_tree, &bench.options, &Silent, &cancel)
}

#[test]
fn a_work_tree_has_the_source_and_each_patch_as_a_commit() {
    let bench = Bench::new();
    bench.write("one.patch", &change());
    bench.write("two.patch", &diff("third.c", "\treturn 3;", "\treturn 4;"));
    let word = "small+one.patch+two.patch";
    // A patched kernel was built last, and its files are not those of the base.
    bench.get_or_build(&bench.wanted(word)).unwrap();
    let folder = bench.path().join("new/work tree");
    let found = source(&bench, word, Some(&folder)).unwrap();
    assert_eq!(found.commits, ["base", "one.patch", "two.patch"]);
    assert_eq!(
        git(&folder, &["log", "--reverse", "--format=%s"]),
        "base\none.patch\ntwo.patch"
    );
    assert_eq!(git(&folder, &["status", "--porcelain", "--ignored"]), "");
    for (revision, text) in [
        ("base", "value + 1"),
        ("base~0", "value + 1"),
        ("HEAD~1", "value + 2"),
    ] {
        let shown = git(&folder, &["show", &format!("{revision}:second.c")]);
        assert!(shown.contains(text), "{revision}: {shown}");
    }
    // An edit there is none of the cache's copy, and its patch applies to the base.
    let file = folder.join("second.c");
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, text.replace("+ 2", "+ 9")).unwrap();
    git(&folder, &["commit", "-q", "-a", "-m", "mine"]);
    git(
        &folder,
        &["format-patch", "-1", "-o", "..", "--start-number=9"],
    );
    let built = bench.get_or_build(&bench.wanted(&format!("{word}+new/0009-mine.patch")));
    built.unwrap();
    assert!(
        !fs::read_to_string(found.copy.join("second.c"))
            .unwrap()
            .is_empty()
    );
}

#[test]
fn a_folder_with_something_in_it_stays_as_it_is() {
    let bench = Bench::new();
    let folder = bench.path().join("mine");
    fs::create_dir(&folder).unwrap();
    source(&bench, "small", Some(&folder)).unwrap();
    assert_eq!(git(&folder, &["log", "--format=%s"]), "base");
    let error = source(&bench, "small", Some(&folder)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Input);
    assert!(error.to_string().contains("not an empty folder"), "{error}");

    // Without a work tree, nothing is made.
    let found = source(&bench, "small", None).unwrap();
    assert!(found.copy.join("second.c").is_file());
    assert!(found.commits.is_empty());
    let built = bench.get_or_build(&bench.wanted("small")).unwrap();
    let error = source(&bench, built.image.to_str().unwrap(), None).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Input);

    // Nor is anything left of a work tree whose patch does not apply.
    bench.write("wrong.patch", &change().replace("value + 1", "value + 5"));
    let other = bench.path().join("other");
    source(&bench, "small+wrong.patch", Some(&other)).unwrap_err();
    assert!(!other.exists());
    let hidden = fs::read_dir(bench.path()).unwrap().flatten();
    let hidden = hidden.filter(|item| item.file_name().to_string_lossy().starts_with(".numalab"));
    assert_eq!(hidden.count(), 0);
}
