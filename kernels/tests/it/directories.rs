//! Directories as sources: what is copied, what follows an edit, what is refused.

use std::fs;
use std::path::Path;
use std::process::Command;

use numalab_kernels::ErrorKind;

use crate::bench::{Bench, Listener, compiled};

#[track_caller]
fn git(path: &Path, arguments: &[&str]) {
    let output = Command::new("git")
        .args(["-c", "user.name=x", "-c", "user.email=x@y"])
        .args(arguments)
        .current_dir(path)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn an_edit_recompiles_its_file_and_undoing_it_gives_the_same_bytes() {
    let bench = Bench::new();
    let wanted = bench.wanted("small");
    let base = bench.get_or_build(&wanted).unwrap();
    let file = bench.source().join("second.c");
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, text.replace("+ 1", "+ 7")).unwrap();
    let edited = bench.get_or_build(&wanted).unwrap();
    assert_eq!(compiled(&edited), ["second.o"]);
    assert_ne!(edited.key, base.key);
    fs::write(&file, text).unwrap();
    assert_eq!(bench.get_or_build(&wanted).unwrap().key, base.key);
}

#[test]
fn files_that_come_and_go_are_followed() {
    let bench = Bench::new();
    let wanted = bench.wanted("small");
    let base = bench.get_or_build(&wanted).unwrap();
    let file = bench.source().join("fourth.c");
    fs::write(&file, "int fourth;\n").unwrap();
    let more = bench.get_or_build(&wanted).unwrap();
    assert_ne!(more.image_digest, base.image_digest);
    fs::remove_file(&file).unwrap();
    fs::remove_dir_all(base.image.parent().unwrap()).unwrap();
    assert_eq!(
        bench.get_or_build(&wanted).unwrap().image_digest,
        base.image_digest
    );
    assert!(!bench.copy().join("fourth.c").exists());
}

#[test]
fn an_edit_below_a_patch_is_followed() {
    let bench = Bench::new();
    bench.write("change.patch", &crate::bench::change());
    bench
        .get_or_build(&bench.wanted("small+change.patch"))
        .unwrap();
    let file = bench.source().join("second.c");
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, text.replace("/* one */", "value *= 5;")).unwrap();
    bench
        .get_or_build(&bench.wanted("small+change.patch"))
        .unwrap();
    let copy = fs::read_to_string(bench.copy().join("second.c")).unwrap();
    assert!(
        copy.contains("value *= 5;") && copy.contains("+ 2"),
        "{copy}"
    );
    bench.get_or_build(&bench.wanted("small")).unwrap();
    let copy = fs::read_to_string(bench.copy().join("second.c")).unwrap();
    assert!(
        copy.contains("value *= 5;") && copy.contains("+ 1"),
        "{copy}"
    );
}

#[test]
fn what_git_ignores_is_no_source_and_the_work_tree_stays_as_it_is() {
    let bench = Bench::new();
    let source = bench.source();
    git(&source, &["init", "--quiet"]);
    fs::write(source.join(".gitignore"), "*.o\n.config\ninclude/config/\n").unwrap();
    git(&source, &["add", "."]);
    git(&source, &["commit", "--quiet", "-m", "x"]);
    // Built in, with uncommitted edits.
    fs::write(source.join(".config"), "CONFIG_X=y\n").unwrap();
    fs::write(source.join("old.o"), "x").unwrap();
    fs::write(source.join("untracked.c"), "int untracked;\n").unwrap();
    fs::remove_file(source.join("third.c")).unwrap();
    let state = || {
        let index = fs::read(source.join(".git/index")).unwrap();
        let data = fs::metadata(source.join(".git/index")).unwrap();
        (index, data.modified().unwrap())
    };
    let before = state();
    let kernel = bench.get_or_build(&bench.wanted("small")).unwrap();
    assert_eq!(state(), before);
    assert_eq!(compiled(&kernel), ["first.o", "second.o", "untracked.o"]);
    let copy = bench.copy();
    assert!(!copy.join(".config").exists() && !copy.join("old.o").exists());
    assert!(!copy.join(".git").exists());
    let version = kernel.manifest.built.unwrap().source.version;
    assert!(version.starts_with("6.12.0-small, commit "), "{version}");
}

#[test]
fn a_git_worktree_is_a_source() {
    let bench = Bench::new();
    let source = bench.source();
    git(&source, &["init", "--quiet"]);
    git(&source, &["add", "."]);
    git(&source, &["commit", "--quiet", "-m", "x"]);
    let other = bench.path().join("worktree");
    git(
        &source,
        &["worktree", "add", "--quiet", &other.to_string_lossy()],
    );
    assert!(other.join(".git").is_file());
    bench.define(
        "tree",
        "summary: x\nsource: {directory: ../worktree}\nset: {CONFIG_SMALL: y}\n",
    );
    let kernel = bench.get_or_build(&bench.wanted("tree")).unwrap();
    let version = kernel.manifest.built.unwrap().source.version;
    assert!(version.contains("commit"), "{version}");
}

#[test]
fn a_directory_that_was_built_in_is_refused() {
    let bench = Bench::new();
    fs::write(bench.source().join(".config"), "").unwrap();
    let error = bench.get_or_build(&bench.wanted("small")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Input);
    assert!(error.to_string().contains("make mrproper"), "{error}");
}

#[test]
fn a_path_with_a_space_and_a_colon_is_a_source() {
    let bench = Bench::new();
    let odd = bench.path().join("my kernel: new");
    crate::bench::copy_folder(&crate::bench::fixture(), &odd);
    bench.define(
        "odd",
        "summary: x\nsource: {directory: '../my kernel: new'}\nset: {CONFIG_SMALL: y}\n",
    );
    bench.get_or_build(&bench.wanted("odd")).unwrap();
}

#[test]
fn an_interrupted_copy_is_put_right() {
    let bench = Bench::new();
    let wanted = bench.wanted("small");
    bench.get_or_build(&wanted).unwrap();
    let tree = bench.copy().parent().unwrap().to_owned();
    // As a kill leaves it: a file is copied, the index does not know of it, and the
    // user has thrown it away since.
    fs::write(tree.join("index.busy"), "").unwrap();
    fs::write(tree.join("src/stray.c"), "int stray;\n").unwrap();
    fs::write(bench.source().join("more.c"), "int more;\n").unwrap();
    let kernel = bench.get_or_build(&wanted).unwrap();
    assert!(!tree.join("src/stray.c").exists());
    assert_eq!(compiled(&kernel), ["more.o"]);
}

#[test]
fn a_sparse_checkout_is_refused_and_what_was_deleted_is_named() {
    let bench = Bench::new();
    let source = bench.source();
    git(&source, &["init", "-q"]);
    git(&source, &["add", "--all"]);
    git(&source, &["commit", "-q", "-m", "x"]);
    git(
        &source,
        &["sparse-checkout", "set", "--no-cone", "/*", "!/second.c"],
    );
    assert!(!source.join("second.c").exists());
    let error = bench.get_or_build(&bench.wanted("small")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Input);
    let told = error.to_string();
    assert!(
        told.contains("sparse checkout") && told.contains("second.c"),
        "{told}"
    );

    git(&source, &["sparse-checkout", "disable"]);
    fs::remove_file(source.join("third.c")).unwrap();
    let listener = Listener::default();
    let kernel = bench
        .ensure_told(&bench.wanted("small"), &listener)
        .unwrap();
    assert_eq!(compiled(&kernel), ["first.o", "second.o"]);
    let told = listener.text();
    assert!(told.contains("not built: third.c"), "{told}");
}
