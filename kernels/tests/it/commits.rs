//! Commits of git repositories as sources: what is written, what is never written, what
//! is refused.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use numalab_kernels::source::repository::Repository;
use numalab_kernels::{Digest, ErrorKind, Kernel};

use crate::bench::{Bench, Listener, compiled};

#[track_caller]
pub(crate) fn git(path: &Path, arguments: &[&str]) -> String {
    let output = Command::new("git")
        .args(["-c", "user.name=x", "-c", "user.email=x@y"])
        .args(["-c", "protocol.file.allow=always", "-c", "gc.auto=0"])
        .args(arguments)
        .current_dir(path)
        .output()
        .unwrap();
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

fn commit(path: &Path, message: &str) -> String {
    git(path, &["add", "--all"]);
    git(path, &["commit", "--quiet", "--allow-empty", "-m", message]);
    git(path, &["rev-parse", "HEAD"])
}

/// The small kernel's source as a repository with one commit, which has a tag.
fn repository(bench: &Bench) -> PathBuf {
    let path = bench.source();
    git(&path, &["init", "--quiet", "--initial-branch=main"]);
    commit(&path, "first");
    git(&path, &["tag", "v1"]);
    path
}

fn change(path: &Path, name: &str, from: &str, to: &str) {
    let text = fs::read_to_string(path.join(name)).unwrap();
    assert!(text.contains(from));
    fs::write(path.join(name), text.replace(from, to)).unwrap();
}

/// The small kernel of a commit, by a definition, so that it has its options.
fn build(bench: &Bench, path: &Path, revision: &str) -> Kernel {
    define(bench, path, revision);
    bench.get_or_build(&bench.wanted("commit")).unwrap()
}

fn define(bench: &Bench, path: &Path, revision: &str) {
    bench.define(
        "commit",
        &format!(
            "summary: x\nsource: {{git: '{}', revision: '{revision}'}}\nset: {{CONFIG_SMALL: y}}\n",
            path.display()
        ),
    );
}

/// Every file below a folder with its content and its times.
fn state(path: &Path) -> BTreeMap<PathBuf, (Option<Digest>, std::time::SystemTime)> {
    let mut files = BTreeMap::new();
    let mut folders = vec![path.to_owned()];
    while let Some(folder) = folders.pop() {
        for item in fs::read_dir(folder).unwrap() {
            let path = item.unwrap().path();
            let data = fs::symlink_metadata(&path).unwrap();
            if data.is_dir() {
                folders.push(path.clone());
            }
            let digest = data.is_file().then(|| Digest::of_file(&path).unwrap());
            files.insert(path, (digest, data.modified().unwrap()));
        }
    }
    files
}

fn forget(kernel: &Kernel) {
    fs::remove_dir_all(kernel.image.parent().unwrap()).unwrap();
}

#[test]
fn commits_share_a_tree_and_recompile_what_differs() {
    let bench = Bench::new();
    let path = repository(&bench);
    change(&path, "second.c", "+ 1", "+ 7");
    let second = commit(&path, "sched: \"seven\"");
    let one = build(&bench, &path, "v1");
    assert_eq!(compiled(&one), ["first.o", "second.o", "third.o"]);
    let two = build(&bench, &path, "HEAD");
    assert_eq!(compiled(&two), ["second.o"]);
    assert_ne!(one.image_digest, two.image_digest);
    let source = two.manifest.built.as_ref().unwrap().source.clone();
    let shown = format!(
        "6.12.0-small, commit {} (\"sched: \"seven\"\")",
        &second[..12]
    );
    assert_eq!(source.version, shown);
    forget(&one);
    let back = build(&bench, &path, "v1");
    assert_eq!(compiled(&back), ["second.o"]);
    assert_eq!(back.image_digest, one.image_digest);
}

#[test]
fn commits_with_the_same_files_are_one_kernel() {
    let bench = Bench::new();
    let path = repository(&bench);
    commit(&path, "nothing");
    let (one, two) = (build(&bench, &path, "v1"), build(&bench, &path, "HEAD"));
    assert_eq!(one.key, two.key);
}

#[test]
fn the_work_tree_and_the_repository_stay_as_they_are() {
    let bench = Bench::new();
    let path = repository(&bench);
    change(&path, "second.c", "+ 1", "+ 7");
    commit(&path, "second");
    // Staged, not staged, untracked, removed, and a status that git would refresh.
    change(&path, "second.c", "+ 7", "+ 8");
    git(&path, &["add", "second.c"]);
    change(&path, "second.c", "+ 8", "+ 9");
    fs::write(path.join("untracked.c"), "int untracked;\n").unwrap();
    fs::remove_file(path.join("third.c")).unwrap();
    let touched = fs::read(path.join("first.c")).unwrap();
    fs::write(path.join("first.c"), touched).unwrap();
    let before = state(&path);
    define(&bench, &path, "HEAD");
    let listener = Listener::default();
    let kernel = bench
        .ensure_told(&bench.wanted("commit"), &listener)
        .unwrap();
    build(&bench, &path, "v1");
    assert!(bench.get_or_build(&bench.wanted("small")).is_ok());
    assert_eq!(state(&path), before);
    assert_eq!(compiled(&kernel), ["first.o", "second.o", "third.o"]);
    let told = listener.text();
    assert!(told.contains("has edits that are not committed"), "{told}");
}

#[test]
fn a_tag_that_begins_like_an_objects_id_is_the_tag() {
    let bench = Bench::new();
    let path = repository(&bench);
    let wanted = git(&path, &["rev-parse", "HEAD"]);
    let prefix = &git(&path, &["rev-parse", "HEAD:second.c"])[..5];
    git(&path, &["tag", prefix]);
    let found = Repository::open(&path).unwrap().commit(prefix).unwrap();
    assert_eq!(found.id, wanted);
    // A branch and a tag of one name are two answers.
    git(&path, &["branch", "both"]);
    git(&path, &["tag", "both"]);
    let error = Repository::open(&path).unwrap().commit("both").unwrap_err();
    assert!(error.to_string().contains("ambiguous"), "{error}");
}

#[test]
fn a_worktree_a_bare_and_a_shallow_clone_are_sources() {
    let bench = Bench::new();
    let path = repository(&bench);
    let expected = build(&bench, &path, "HEAD");
    let worktree = bench.path().join("worktree");
    let words = ["worktree", "add", "--quiet", &worktree.to_string_lossy()];
    git(&path, &words);
    assert!(worktree.join(".git").is_file());
    let url = format!("file://{}", path.display());
    let bare = bench.path().join("bare of it.git");
    git(
        bench.path(),
        &["clone", "--quiet", "--bare", &url, "bare of it.git"],
    );
    git(
        bench.path(),
        &["clone", "--quiet", "--depth=1", &url, "shallow"],
    );
    for place in [worktree, bare, bench.path().join("shallow")] {
        let before = state(&place);
        assert_eq!(build(&bench, &place, "HEAD").key, expected.key);
        forget(&expected);
        let kernel = build(&bench, &place, "HEAD");
        assert_eq!(kernel.image_digest, expected.image_digest);
        assert_eq!(state(&place), before, "{place:?}");
    }
}

#[test]
fn objects_that_a_partial_clone_lacks_are_told_and_not_fetched() {
    let bench = Bench::new();
    let path = repository(&bench);
    git(&path, &["config", "uploadpack.allowFilter", "true"]);
    git(&path, &["config", "uploadpack.allowAnySHA1InWant", "true"]);
    let url = format!("file://{}", path.display());
    for filter in ["blob:none", "tree:0"] {
        let place = bench.path().join(filter.replace(':', "-"));
        let name = place.to_string_lossy().into_owned();
        let filter = format!("--filter={filter}");
        let words = ["clone", "--quiet", "--no-checkout", &filter, &url, &name];
        git(bench.path(), &words);
        let before = state(&place);
        define(&bench, &place, "HEAD");
        let error = bench.get_or_build(&bench.wanted("commit")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Input, "{error}");
        let text = error.to_string();
        assert!(
            text.contains("are not here") && text.contains("fetch"),
            "{text}"
        );
        assert!(!text.contains("conflict"), "{text}");
        assert_eq!(state(&place), before);
        // Once they are there, it is as good as any other.
        git(&place, &["checkout", "--quiet", "HEAD"]);
        build(&bench, &place, "HEAD");
    }
}

#[test]
fn no_setting_or_attribute_changes_the_bytes() {
    let bench = Bench::new();
    let path = bench.source();
    let text = "*.c text eol=crlf filter=loud ident working-tree-encoding=UTF-16\n\
                third.c export-ignore\n";
    fs::write(path.join(".gitattributes"), text).unwrap();
    fs::write(path.join("with space.txt"), "x\r\ny\n").unwrap();
    symlink("first.c", path.join("link.txt")).unwrap();
    git(&path, &["init", "--quiet"]);
    for (name, value) in [
        ("core.autocrlf", "true"),
        ("filter.loud.smudge", "tr a-z A-Z"),
        ("filter.loud.clean", "cat"),
        ("core.sparseCheckout", "true"),
        ("core.symlinks", "false"),
        ("core.hooksPath", "hooks"),
    ] {
        git(&path, &["config", name, value]);
    }
    // Into the repository as they are, past the attributes.
    let mut names: Vec<String> = Vec::new();
    for name in [
        ".gitattributes",
        "Kconfig",
        "Makefile",
        "first.c",
        "second.c",
        "third.c",
        "include/value.h",
        "scripts/conf.sh",
        "with space.txt",
    ] {
        let id = git(&path, &["hash-object", "-w", "--no-filters", name]);
        names.push(format!("100644,{id},{name}"));
    }
    for name in &names {
        git(&path, &["update-index", "--add", "--cacheinfo", name]);
    }
    let target = bench.write("target", "first.c");
    let id = git(
        &path,
        &[
            "hash-object",
            "-w",
            "--no-filters",
            &target.to_string_lossy(),
        ],
    );
    let link = format!("120000,{id},link.txt");
    git(&path, &["update-index", "--add", "--cacheinfo", &link]);
    git(&path, &["commit", "--quiet", "-m", "x"]);
    build(&bench, &path, "HEAD");
    let copy = bench.copy();
    for name in ["first.c", "third.c", "with space.txt", "Makefile"] {
        let (left, right) = (fs::read(path.join(name)), fs::read(copy.join(name)));
        assert_eq!(left.unwrap(), right.unwrap(), "{name}");
    }
    assert_eq!(
        fs::read_link(copy.join("link.txt")).unwrap(),
        Path::new("first.c")
    );
}

#[test]
fn a_header_that_hides_another_recompiles_its_users_alone() {
    let bench = Bench::new();
    let path = repository(&bench);
    // Found before include/value.h, which first.c includes.
    fs::write(path.join("value.h"), "#define VALUE 3\n").unwrap();
    fs::write(path.join("other.h"), "#define OTHER 3\n").unwrap();
    commit(&path, "hides");
    let one = build(&bench, &path, "v1");
    let two = build(&bench, &path, "HEAD");
    assert_eq!(compiled(&two), ["first.o"]);
    let fresh = Bench::new();
    assert_eq!(build(&fresh, &path, "HEAD").image_digest, two.image_digest);
    forget(&one);
    let back = build(&bench, &path, "v1");
    assert_eq!(compiled(&back), ["first.o"]);
    assert_eq!(back.image_digest, one.image_digest);
}

#[test]
fn a_checkout_that_was_killed_is_put_right() {
    let bench = Bench::new();
    let path = repository(&bench);
    let first = git(&path, &["rev-parse", "HEAD^{tree}"]);
    change(&path, "second.c", "+ 1", "+ 7");
    fs::write(path.join("fourth"), "x\n").unwrap();
    commit(&path, "second");
    let second = git(&path, &["rev-parse", "HEAD^{tree}"]);
    fs::remove_file(path.join("fourth")).unwrap();
    fs::create_dir(path.join("fourth")).unwrap();
    fs::write(path.join("fourth/deep.txt"), "x\n").unwrap();
    commit(&path, "third");
    let one = build(&bench, &path, "v1");
    let copy = bench.copy();
    let entry = copy.parent().unwrap().to_owned();
    // As a kill leaves it on the way to the second commit.
    let state = format!(r#"{{"at":"{first}","towards":["{second}"]}}"#);
    fs::write(entry.join("git.json"), state).unwrap();
    fs::write(copy.join("fourth"), "half").unwrap();
    build(&bench, &path, "HEAD");
    assert!(copy.join("fourth/deep.txt").is_file());
    forget(&one);
    // And as one leaves it of which nothing is known.
    fs::write(entry.join("git.json"), "{").unwrap();
    fs::write(copy.join("second.c"), "int sec").unwrap();
    fs::write(copy.join("stray.c"), "int stray;\n").unwrap();
    let back = build(&bench, &path, "v1");
    assert_eq!(back.image_digest, one.image_digest);
    assert!(!copy.join("stray.c").exists() && !copy.join("fourth").exists());
}

#[test]
fn a_patch_on_a_commit_follows_it() {
    let bench = Bench::new();
    let path = repository(&bench);
    bench.write("change.patch", &crate::bench::change());
    change(&path, "second.c", "/* one */", "value *= 5;");
    commit(&path, "second");
    let patched = |revision: &str| {
        define(&bench, &path, revision);
        bench
            .get_or_build(&bench.wanted("commit+change.patch"))
            .unwrap();
        fs::read_to_string(bench.copy().join("second.c")).unwrap()
    };
    let text = patched("v1");
    assert!(text.contains("/* one */") && text.contains("+ 2"), "{text}");
    let text = patched("HEAD");
    assert!(
        text.contains("value *= 5;") && text.contains("+ 2"),
        "{text}"
    );
    build(&bench, &path, "v1");
    let text = fs::read_to_string(bench.copy().join("second.c")).unwrap();
    assert_eq!(
        text,
        fs::read_to_string(crate::bench::fixture().join("second.c")).unwrap()
    );
}

#[test]
fn words_of_the_command_line_name_commits() {
    let bench = Bench::new();
    let path = repository(&bench);
    // The configuration of sources without a definition.
    bench.define(
        "linux-6.12",
        &crate::bench::DEFINITION.replace("directory: source", "directory: ../plain"),
    );
    crate::bench::copy_folder(&crate::bench::fixture(), &bench.path().join("plain"));
    git(&path, &["branch", "topic+one"]);
    let odd = bench.path().join("my kernel: a@b");
    fs::rename(&path, &odd).unwrap();
    let id = git(&odd, &["rev-parse", "HEAD"]);
    bench.write("fix.patch", &crate::bench::change());
    for (word, name) in [
        ("git:my kernel: a@b@v1", "my kernel: a@b@v1"),
        ("git:my kernel: a@b@HEAD@{0}", "my kernel: a@b@HEAD@{0}"),
        ("git:my kernel: a@b@topic+one", "my kernel: a@b@topic+one"),
        (
            "git:my kernel: a@b@topic+one+fix.patch",
            "my kernel: a@b@topic+one+fix",
        ),
        (
            "git:my kernel: a@b@main^{/first}",
            "my kernel: a@b@main^{/first}",
        ),
    ] {
        let wanted = bench.wanted(word);
        assert_eq!(wanted.name, name);
        assert!(wanted.word.contains(&id), "{}", wanted.word);
        // The word that a report gives means the same.
        assert_eq!(bench.wanted(&wanted.word).origin, wanted.origin);
    }
    bench
        .get_or_build(&bench.wanted("git:my kernel: a@b@v1"))
        .unwrap();
    assert!(bench.path().join("my kernel: a@b/.git/index").exists());
}

#[test]
fn what_names_no_commit_is_told_in_gits_words() {
    let bench = Bench::new();
    let path = repository(&bench);
    git(&path, &["branch", "v1"]);
    bench.define("linux-6.12", crate::bench::DEFINITION);
    let catalog = numalab_kernels::Catalog::load(&bench.catalog()).unwrap();
    fs::create_dir(bench.path().join("empty")).unwrap();
    let place = path.display();
    for (word, says) in [
        (format!("git:{place}@maain"), "did you mean \"main\"?"),
        (format!("git:{place}@v1"), "ambiguous"),
        (format!("git:{place}@--all"), "is no revision"),
        (format!("git:{place}@"), "is no revision"),
        (format!("git:{place}@main:first.c"), "is no commit"),
        (format!("git:{place}@{}", "0".repeat(40)), "is no commit"),
        (format!("git:{place}"), "git:PATH@REVISION"),
        ("git:nowhere@main".to_owned(), "no PATH in it is a folder"),
        ("git:empty@main".to_owned(), "is no git repository"),
        (format!("git:{place}@main+none.patch"), "none.patch"),
    ] {
        let error = catalog
            .resolve(&word, bench.path(), &bench.cache())
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Input, "{word}: {error}");
        assert!(error.to_string().contains(says), "{word}: {error}");
    }
    for (text, says) in [
        ("{git: source}", "needs a `revision`"),
        ("{revision: v1}", "`revision` belongs to"),
        (
            "{git: source, revision: v1, debian: linux}",
            "a source is one of",
        ),
        ("{git: source, revision: nothing}", "is no commit"),
    ] {
        bench.define("bad", &format!("summary: x\nsource: {text}\n"));
        let error = numalab_kernels::Catalog::load(&bench.catalog())
            .and_then(|catalog| catalog.resolve("bad", bench.path(), &bench.cache()))
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Input);
        assert!(error.to_string().contains(says), "{text}: {error}");
    }
}

#[test]
fn a_commit_that_is_no_kernel_is_refused() {
    let bench = Bench::new();
    let path = repository(&bench);
    fs::remove_file(path.join("Kconfig")).unwrap();
    commit(&path, "no kernel");
    define(&bench, &path, "HEAD");
    let error = bench.get_or_build(&bench.wanted("commit")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Input);
    assert!(error.to_string().contains("it has no Kconfig"), "{error}");
}

#[test]
fn a_repository_tells_of_its_commits() {
    let bench = Bench::new();
    let path = repository(&bench);
    let found = Repository::open(&path.join("include")).unwrap();
    assert_eq!(found.name(), "source");
    let commit = found.commit("v1").unwrap();
    assert_eq!(commit.subject, "first");
    assert_eq!(commit.tree, git(&path, &["rev-parse", "HEAD^{tree}"]));
    assert_eq!(found.file(&commit.id, "none").unwrap(), None);
}

#[test]
fn a_fresh_build_is_made_from_nothing_beside_the_other() {
    let mut bench = Bench::new();
    let path = repository(&bench);
    let known = build(&bench, &path, "HEAD");
    bench.options.fresh = true;
    // What a fault of ours or of the disk could leave: a source that is not the commit's,
    // and an object that is not the source's.
    let place = bench.copy().join("second.c");
    let text = fs::read_to_string(&place).unwrap();
    fs::write(&place, text.replace("+ 1", "+ 7")).unwrap();
    let fresh = build(&bench, &path, "HEAD");
    assert_eq!(compiled(&fresh), ["first.o", "second.o", "third.o"]);
    assert_ne!(fresh.key, known.key);
    assert_eq!(fresh.image_digest, known.image_digest);
    let again = build(&bench, &path, "HEAD");
    assert_eq!(compiled(&again), ["first.o", "second.o", "third.o"]);
    assert_ne!(again.key, fresh.key);
    // Whoever does not ask for it gets the one that was there.
    bench.options.fresh = false;
    assert_eq!(build(&bench, &path, "HEAD").key, known.key);
}
