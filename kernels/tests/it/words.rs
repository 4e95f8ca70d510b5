//! Words of the command line and definitions: what they mean, and how they fail.

use std::fs;

use numalab_kernels::spec::{ExpectedVerdict, Origin, Source};
use numalab_kernels::{Catalog, ErrorKind, KernelError, KernelSpec};

use crate::bench::{Bench, change, copy_folder, fixture};

fn resolve(bench: &Bench, word: &str) -> Result<KernelSpec, KernelError> {
    Catalog::load(&bench.catalog())?.resolve(word, bench.path(), &bench.cache())
}

#[track_caller]
fn fails(bench: &Bench, word: &str) -> String {
    let error = resolve(bench, word).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Input, "{error}");
    error
        .to_string()
        .replace(&bench.path().to_string_lossy().into_owned(), "HERE")
}

#[test]
fn a_name_is_a_kernel_and_a_slip_is_understood() {
    let bench = Bench::new();
    assert_eq!(resolve(&bench, "small").unwrap().name, "small");
    assert_eq!(
        fails(&bench, "smal"),
        "\"smal\" is no kernel: neither a file or folder in \"HERE\" nor one of small; did you \
         mean \"small\"?"
    );
    assert!(!fails(&bench, "windows").contains("did you mean"));
    assert!(fails(&bench, "").contains("is no kernel"));
}

#[test]
fn a_definitions_path_is_a_kernel() {
    let bench = Bench::new();
    bench.write(
        "own/mine.yaml",
        "summary: x\nbase: small\napply: [fix.patch]\n",
    );
    bench.write("own/fix.patch", "diff\n");
    let wanted = resolve(&bench, "own/mine.yaml").unwrap();
    assert_eq!(wanted.name, "mine");
    let Origin::Recipe(recipe) = wanted.origin else {
        panic!("it is built");
    };
    assert_eq!(recipe.patches[0].bytes, b"diff\n");
    assert_eq!(
        recipe.source,
        Source::Directory(bench.source().canonicalize().unwrap())
    );
}

#[test]
fn a_source_directory_takes_the_base_kernels_options() {
    let bench = Bench::new();
    bench.define(
        "linux-6.12",
        "summary: x\nsource: {directory: source}\nset: {CONFIG_SMALL: y}\n",
    );
    copy_folder(&fixture(), &bench.path().join("mine"));
    let wanted = resolve(&bench, "mine").unwrap();
    assert_eq!(wanted.name, "mine");
    let Origin::Recipe(recipe) = wanted.origin else {
        panic!("it is built");
    };
    assert_eq!(recipe.fragments[0].text, "CONFIG_SMALL=y\n");
    fs::create_dir(bench.path().join("empty")).unwrap();
    assert!(fails(&bench, "empty").contains("it has no Makefile"));
}

#[test]
fn patches_come_after_a_plus_and_an_existing_file_wins() {
    let bench = Bench::new();
    for name in ["a.patch", "a+b.patch", "deep/c.patch"] {
        bench.write(name, &change());
    }
    let patches = |word: &str| {
        let Origin::Recipe(recipe) = resolve(&bench, word).unwrap().origin else {
            panic!("it is built");
        };
        let patches = recipe.patches.iter();
        let named = patches.map(|patch| format!("{:?} {}", patch.direction, patch.name()));
        named.collect::<Vec<_>>().join(", ")
    };
    assert_eq!(patches("small+a.patch"), "Apply a.patch");
    assert_eq!(patches("small+a+b.patch"), "Apply a+b.patch");
    assert_eq!(
        patches("small+a.patch+deep/c.patch"),
        "Apply a.patch, Apply c.patch"
    );
    assert_eq!(
        patches("small+revert:a.patch+revert:deep/c.patch+a+b.patch"),
        "Revert c.patch, Revert a.patch, Apply a+b.patch"
    );
    assert_eq!(
        patches("small+deep+a.patch"),
        "Apply c.patch, Apply a.patch"
    );
    // Only the form of a range is looked at before its repository is.
    assert!(fails(&bench, "small+v1..v2").contains("is no git repository"));
    let reverted = resolve(&bench, "small+revert:a.patch").unwrap();
    assert_eq!(reverted.name, "small+revert-a");
    assert_eq!(resolve(&bench, &reverted.word).unwrap(), reverted);
    assert_eq!(resolve(&bench, "small+a.patch").unwrap().name, "small+a");
    assert_eq!(
        fails(&bench, "small+nope.patch"),
        "the patch \"nope.patch\" in \"small+nope.patch\" is not there (looked for in \"HERE\")"
    );
    assert!(fails(&bench, "small+").contains("is not there"));
}

#[test]
fn expectations_are_inherited_and_overridden() {
    let bench = Bench::new();
    bench.define(
        "old",
        "summary: x\nbase: small\nexpected:\n  a/one: {verdict: fail, because: y}\n  \
         a/two: {verdict: fail, because: y}\n",
    );
    bench.define(
        "new",
        "summary: x\nbase: old\nexpected:\n  a/one: {verdict: pass, because: y}\n",
    );
    let wanted = resolve(&bench, "new").unwrap();
    assert_eq!(wanted.expects("a/one"), ExpectedVerdict::Pass);
    assert_eq!(wanted.expects("a/two"), ExpectedVerdict::Fail);
    assert_eq!(wanted.expects("a/three"), ExpectedVerdict::Pass);
    bench.write("p.patch", &change());
    assert!(resolve(&bench, "new+p.patch").unwrap().expected.is_empty());
}

#[test]
fn mistakes_in_definitions_are_told_with_their_place() {
    let bench = Bench::new();
    let cases = [
        (
            "summary: x\nbase: small\naply: [x]\n",
            "3:1",
            "unknown field `aply`",
        ),
        (
            "summary: x\nsource:\n  svn: x\n",
            "3:3",
            "unknown field `svn`",
        ),
        ("summary: x\n", "1:1", "neither `base`"),
        (
            "summary: x\nbase: small\nsource: {debian: linux-source-6.12}\n",
            "3:1",
            "both",
        ),
        ("summary: x\nbase: smal\n", "2:7", "did you mean \"small\"?"),
        ("summary: x\nbase: bad\n", "2:7", "leads back"),
        (
            "summary: x\nbase: small\napply:\n  - no.patch\n",
            "4:5",
            "is not there",
        ),
        (
            "summary: x\nbase: small\nset: {CONFIG_A: true}\n",
            "3:7",
            "true or false",
        ),
        (
            "summary: x\nbase: small\nset: {A: y}\n",
            "3:7",
            "is not an option",
        ),
        (
            "summary: x\nbase: small\nmatrix: perhaps\n",
            "3:9",
            "expected a boolean",
        ),
        (
            "summary: x\nbase: small\nexpected: {one: {verdict: fail, because: y}}\n",
            "3:12",
            "suite/scenario",
        ),
        (
            "summary: x\nbase: small\nexpected: {a/b: {verdict: maybe, because: y}}\n",
            "3:27",
            "unknown variant `maybe`",
        ),
        (
            "summary: x\nbase: small\nexpected: {a/b: {verdict: fail, because: ''}}\n",
            "3:12",
            "is empty",
        ),
        (
            "summary: x\nsource: {debian: --option}\n",
            "2:18",
            "no name of a Debian package",
        ),
        (
            "summary: x\nsource: {debian: linux-source-6.12, suite: a/b}\n",
            "2:44",
            "no name of a Debian suite",
        ),
        (
            "summary: x\nsource: {suite: trixie}\n",
            "2:1",
            "`suite` belongs to a Debian package",
        ),
        (
            "summary: x\nsource: {debian: linux-source-6.12, directory: x}\n",
            "2:1",
            "a source is one of `debian`",
        ),
        (
            "summary: x\nsource: {directory: .}\n\
             alternative: {url: \"http://x/linux-6.1.tar.xz\", sha256: \"0\"}\n",
            "3:57",
            "no SHA-256 value",
        ),
        (
            "summary: x\nbase: small\nalternative: {directory: .}\n",
            "3:1",
            "stands in for a Debian package",
        ),
        (
            "summary: x\nsource: {debian: linux-source-6.12}\nalternative: {directory: .}\n",
            "3:1",
            "an `alternative` is a `url`",
        ),
        // Not where the word stands first.
        (
            "summary: a source of bad\nbase: small\nsource: {debian: linux-source-6.12}\n",
            "3:1",
            "both",
        ),
        ("summary: leads to bad\nbase: bad\n", "2:7", "leads back"),
        (
            "summary: no.patch\nbase: small\napply: [no.patch]\n",
            "3:9",
            "is not there",
        ),
        ("summary: 'x\n", "2:1", "unexpected end of stream"),
        ("", "1:1", "missing field"),
    ];
    for (text, place, why) in cases {
        bench.define("bad", text);
        let said = match Catalog::load(&bench.catalog()) {
            Ok(catalog) => catalog
                .resolve("bad", bench.path(), &bench.cache())
                .unwrap_err()
                .to_string(),
            Err(error) => error.to_string(),
        };
        assert!(
            said.contains(&format!("bad.yaml:{place}: ")),
            "{text:?}: {said}"
        );
        assert!(said.contains(why), "{text:?}: {said}");
    }
    bench.define("bad", "summary: x\nbase: small\nmatrix: perhaps\n");
    let said = Catalog::load(&bench.catalog()).unwrap_err().to_string();
    assert!(
        said.ends_with("\n3 | matrix: perhaps\n  |         ^"),
        "{said}"
    );
}
