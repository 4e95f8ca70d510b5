//! Tarballs as sources: what is taken, and what is refused with its reason.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use numalab_kernels::{Catalog, ErrorKind};

use crate::bench::{Bench, compiled, copy_folder};

/// How the small kernel is packed.
pub(crate) struct Packed {
    pub(crate) file: &'static str,
    pub(crate) compression: &'static str,
    /// Whether the archive has a folder with all of it.
    pub(crate) folder: bool,
}

impl Default for Packed {
    fn default() -> Self {
        Self {
            file: "linux-small.tar.gz",
            compression: "--gzip",
            folder: true,
        }
    }
}

/// A bench where a tarball without a definition is built like the small kernel.
pub(crate) fn bench() -> Bench {
    let bench = Bench::new();
    let text = crate::bench::DEFINITION;
    bench.define("linux-6.12", text);
    bench
}

/// Packs the small kernel, always to the same bytes.
pub(crate) fn pack(bench: &Bench, packed: &Packed) -> PathBuf {
    let folder = bench.path().join("packed");
    if !folder.exists() {
        copy_folder(&bench.source(), &folder.join("linux-small"));
    }
    let file = bench.path().join(packed.file);
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    let (from, what) = if packed.folder {
        (folder, "linux-small")
    } else {
        (folder.join("linux-small"), ".")
    };
    let output = Command::new("tar")
        .args(["--create", "--sort=name", "--mtime=@0", packed.compression])
        // A `:` in a name would be a host's to tar.
        .arg("--force-local")
        .arg("--file")
        .arg(&file)
        .arg("--directory")
        .arg(from)
        .arg(what)
        .env("GZIP", "-n")
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    file
}

/// Adds something to what is packed next.
fn add(bench: &Bench, name: &str, text: &str) {
    pack(bench, &Packed::default());
    bench.write(&format!("packed/linux-small/{name}"), text);
}

#[track_caller]
fn refused(bench: &Bench, file: &Path) -> String {
    let error = bench
        .get_or_build(&bench.wanted(file.to_str().unwrap()))
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Input, "{error}");
    error.to_string()
}

#[test]
fn each_form_gives_the_same_kernel() {
    let bench = bench();
    let expected = bench
        .get_or_build(&bench.wanted("small"))
        .unwrap()
        .image_digest;
    let forms = [
        ("a.tar.gz", "--gzip", true),
        ("b.tar.xz", "--xz", true),
        ("c.tar.zst", "--zstd", true),
        // The word "--no-same-owner" stands for no compression.
        ("d.tar", "--no-same-owner", true),
        ("e.tgz", "--gzip", false),
        // What decides is the content.
        ("f.tar.xz", "--gzip", true),
        ("sub folder:1/g h.tar.gz", "--gzip", true),
    ];
    for (file, compression, folder) in forms {
        if compression == "--zstd" && which::which("zstd").is_err() {
            eprintln!("not tried: there is no zstd here");
            continue;
        }
        let packed = Packed {
            file,
            compression,
            folder,
        };
        let path = pack(&bench, &packed);
        let before = fs::read(&path).unwrap();
        let kernel = bench.get_or_build(&bench.wanted(file)).unwrap();
        assert_eq!(kernel.image_digest, expected, "{file}");
        assert_eq!(fs::read(&path).unwrap(), before);
    }
}

#[test]
fn a_tarball_is_known_by_its_content() {
    let bench = bench();
    let first = pack(&bench, &Packed::default());
    let kernel = bench
        .get_or_build(&bench.wanted("linux-small.tar.gz"))
        .unwrap();
    let copy = bench.path().join("other.tar.gz");
    fs::rename(&first, &copy).unwrap();
    let again = bench.get_or_build(&bench.wanted("other.tar.gz")).unwrap();
    assert_eq!(again.key, kernel.key);
    bench.write("change.patch", &crate::bench::change());
    let patched = bench
        .get_or_build(&bench.wanted("other.tar.gz+change.patch"))
        .unwrap();
    assert_eq!(compiled(&patched), ["second.o"]);
    add(&bench, "fourth.c", "int fourth;\n");
    pack(&bench, &Packed::default());
    let other = bench
        .get_or_build(&bench.wanted("linux-small.tar.gz"))
        .unwrap();
    assert_ne!(other.key, kernel.key);
}

#[test]
fn a_definition_names_a_tarball_beside_it() {
    let bench = bench();
    let packed = Packed {
        file: "catalog/some/small.tar.gz",
        ..Packed::default()
    };
    pack(&bench, &packed);
    bench.define(
        "packed",
        "summary: x\nsource: {tarball: some/small.tar.gz}\nset: {CONFIG_SMALL: y, CONFIG_NUMA: y}\n",
    );
    let kernel = bench.get_or_build(&bench.wanted("packed")).unwrap();
    let small = bench.get_or_build(&bench.wanted("small")).unwrap();
    assert_eq!(kernel.image_digest, small.image_digest);
    bench.define("gone", "summary: x\nsource: {tarball: none.tar.gz}\n");
    let error = Catalog::load(&bench.catalog())
        .unwrap()
        .resolve("gone", bench.path(), &bench.cache())
        .unwrap_err();
    assert!(error.to_string().contains("gone.yaml:2:10"), "{error}");
}

#[test]
fn a_tarball_without_a_kernel_is_refused_with_what_is_missing() {
    let bench = bench();
    pack(&bench, &Packed::default());
    fs::remove_file(bench.path().join("packed/linux-small/Kconfig")).unwrap();
    let file = pack(&bench, &Packed::default());
    let told = refused(&bench, &file);
    assert!(
        told.contains("its folder \"linux-small\" has no Kconfig"),
        "{told}"
    );
    let packed = Packed {
        folder: false,
        ..Packed::default()
    };
    let told = refused(&bench, &pack(&bench, &packed));
    assert!(
        told.contains("a Makefile and a Kconfig are expected"),
        "{told}"
    );
}

#[test]
fn a_tarball_of_a_tree_that_was_built_in_is_refused() {
    let bench = bench();
    add(&bench, ".config", "CONFIG_SMALL=y\n");
    let told = refused(&bench, &pack(&bench, &Packed::default()));
    assert!(told.contains(".config is there"), "{told}");
    assert!(told.contains("make mrproper"), "{told}");
}

#[test]
fn what_is_no_tarball_is_refused_with_what_it_is() {
    let bench = bench();
    for (bytes, what) in [
        (&b""[..], "it is empty"),
        (b"BZh91AY", "compressed by bzip2"),
        (b"<!DOCTYPE html>", "a page of the web"),
        (b"hello", "no tar archive"),
        (b"\x1f\x8bnonsense", "no tar archive, or is cut off"),
    ] {
        let file = bench.path().join("x.tar.gz");
        fs::write(&file, bytes).unwrap();
        let told = refused(&bench, &file);
        assert!(told.contains(what), "{told}");
    }
    let whole = fs::read(pack(&bench, &Packed::default())).unwrap();
    let file = bench.path().join("cut.tar.gz");
    fs::write(&file, &whole[..whole.len() / 2]).unwrap();
    let told = refused(&bench, &file);
    assert!(told.contains("cut off"), "{told}");
    // What was left by the attempt does not matter to the next one.
    fs::write(&file, &whole).unwrap();
    bench.get_or_build(&bench.wanted("cut.tar.gz")).unwrap();
}

#[test]
fn an_address_without_a_digest_and_sources_that_say_too_much_or_nothing_are_refused() {
    let bench = bench();
    let catalog = Catalog::load(&bench.catalog()).unwrap();
    let error = catalog
        .resolve(
            "https://example.org/linux-6.12.tar.xz",
            bench.path(),
            &bench.cache(),
        )
        .unwrap_err();
    assert!(error.to_string().contains("#sha256=DIGITS"), "{error}");
    for (source, told) in [
        (
            "{url: 'https://x.org/a.tar.xz'}",
            "x.yaml:2:10: `url` needs `sha256`",
        ),
        (
            "{url: 'ftp://x.org/a', sha256: '0000000000000000000000000000000000000000000000000000000000000000'}",
            "no address that begins",
        ),
        ("{url: 'https://x.org/a', sha256: '00'}", "no SHA-256 value"),
        ("{directory: a, tarball: b}", "a source is one of"),
        ("{}", "a source is one of"),
        ("{tarbal: b}", "unknown field `tarbal`"),
    ] {
        let path = bench.write("own/x.yaml", &format!("summary: x\nsource: {source}\n"));
        let error = catalog
            .resolve(path.to_str().unwrap(), bench.path(), &bench.cache())
            .unwrap_err();
        assert!(error.to_string().contains(told), "{error}");
    }
}

#[test]
fn what_macos_puts_beside_files_is_ignored() {
    const ATTRIBUTES: &str = "\0\u{5}\u{16}\u{7}\0\u{2}\0\0Mac OS X        ";
    let bench = bench();
    pack(&bench, &Packed::default());
    bench.write("packed/linux-small/._second.c", ATTRIBUTES);
    // A file of another kind that has such a name is kept.
    bench.write("packed/linux-small/._fourth.c", "int fourth;\n");
    bench.write("packed/._linux-small", ATTRIBUTES);
    bench.write("packed/README", "x");
    let file = bench.path().join("mac.tar.gz");
    let packed = Command::new("tar")
        .args(["--create", "--gzip", "--file"])
        .arg(&file)
        .arg("--directory")
        .arg(bench.path().join("packed"))
        .args(["._linux-small", "README", "linux-small"])
        .output()
        .unwrap();
    assert!(packed.status.success(), "{packed:?}");
    let kernel = bench.get_or_build(&bench.wanted("mac.tar.gz")).unwrap();
    assert_eq!(compiled(&kernel), ["first.o", "second.o", "third.o"]);
    assert!(bench.copy().join("._fourth.c").exists());
    assert!(!bench.copy().join("._second.c").exists());
}

#[test]
fn a_tarball_of_two_sources_is_refused_with_both_names() {
    let bench = bench();
    pack(&bench, &Packed::default());
    copy_folder(&bench.source(), &bench.path().join("packed/linux-2"));
    let file = bench.path().join("two.tar.gz");
    let packed = Command::new("tar")
        .args(["--create", "--gzip", "--file"])
        .arg(&file)
        .arg("--directory")
        .arg(bench.path().join("packed"))
        .arg(".")
        .output()
        .unwrap();
    assert!(packed.status.success(), "{packed:?}");
    let told = refused(&bench, &file);
    assert!(
        told.contains("several kernel sources, \"linux-2\" and \"linux-small\""),
        "{told}"
    );
}
