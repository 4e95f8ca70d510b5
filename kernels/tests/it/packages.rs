//! Debian packages as sources, from a repository made on the spot: no network.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

use numalab_kernels::Digest;
use numalab_kernels::cache::Part;

use crate::bench::{Bench, fixture, folders};
use crate::server::{Act, Server};
use crate::tarballs::{self, Packed};

const PACKAGE: &str = "linux-source-small";

struct Repository {
    bench: Bench,
    folder: PathBuf,
}

/// A repository with one package; `None`, with the reason printed, where there is no
/// apt.
fn repository() -> Option<Repository> {
    if which::which("apt-get").is_err() || which::which("dpkg-deb").is_err() {
        eprintln!("not tried: there is no apt here");
        return None;
    }
    let bench = Bench::new();
    bench.define(
        "packed",
        "summary: x\nsource: {debian: linux-source-small}\nset: {CONFIG_SMALL: y, CONFIG_NUMA: y}\n",
    );
    bench.define(
        "of-suite",
        "summary: x\nsource: {debian: linux-source-small, suite: new-backports}\n\
         set: {CONFIG_SMALL: y, CONFIG_NUMA: y}\n",
    );
    let folder = bench.path().join("repository");
    let inner = bench.path().join("package/usr/src");
    fs::create_dir_all(&inner).unwrap();
    fs::create_dir_all(&folder).unwrap();
    bench.write(
        "package/DEBIAN/control",
        "Package: linux-source-small\nVersion: 2:6.12.0-1~test1\nArchitecture: all\n\
         Maintainer: x <x@y>\nDescription: x\n",
    );
    run(Command::new("tar")
        .args([
            "--create",
            "--xz",
            "--transform=s,^kernel,linux-source-small,",
            "--file",
        ])
        .arg(inner.join("linux-source-small.tar.xz"))
        .arg("--directory")
        .arg(fixture().parent().unwrap())
        .arg("kernel"));
    let archive = folder.join("source.deb");
    run(Command::new("dpkg-deb")
        .args(["--root-owner-group", "--build"])
        .arg(bench.path().join("package"))
        .arg(&archive));
    let list = format!(
        "Package: {PACKAGE}\nVersion: 2:6.12.0-1~test1\nArchitecture: all\nMaintainer: x <x@y>\n\
         Filename: ./source.deb\nSize: {}\nSHA256: {}\nDescription: x\n",
        fs::metadata(&archive).unwrap().len(),
        Digest::of_file(&archive).unwrap()
    );
    fs::write(folder.join("Packages"), list).unwrap();
    let repository = Repository { bench, folder };
    repository.offer(&format!(
        "deb [trusted=yes] file:{} ./\n",
        repository.folder.display()
    ));
    Some(repository)
}

#[track_caller]
fn run(command: &mut Command) {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
}

impl Repository {
    /// Makes these the system's package sources.
    fn offer(&self, sources: &str) {
        let list = self.bench.write("sources.list", sources);
        self.bench.write(
            "apt.conf",
            &format!(
                "Dir::Etc::SourceList \"{}\";\nDir::Etc::SourceParts \"/dev/null\";\n",
                list.display()
            ),
        );
    }

    /// Makes the system's package source a mirror of Debian, of which it takes one
    /// suite, without the package; another suite has it.
    fn mirror(&self) {
        let architecture = Command::new("dpkg")
            .arg("--print-architecture")
            .output()
            .unwrap();
        let architecture = String::from_utf8(architecture.stdout).unwrap();
        let architecture = architecture.trim();
        let list = fs::read_to_string(self.folder.join("Packages")).unwrap();
        let others = list.replace(PACKAGE, "something-else");
        for (suite, list) in [("old", &others), ("new-backports", &list)] {
            let folder = self.folder.join("dists").join(suite);
            let packages = format!("main/binary-{architecture}/Packages");
            fs::create_dir_all(folder.join(&packages).parent().unwrap()).unwrap();
            fs::write(folder.join(&packages), list).unwrap();
            let release = format!(
                "Origin: Debian\nLabel: Debian\nSuite: {suite}\nCodename: {suite}\n\
                 Date: Sat, 01 Jan 2022 00:00:00 UTC\nArchitectures: {architecture}\nComponents: main\nSHA256:\n {} {} {packages}\n",
                Digest::of(list.as_bytes()),
                list.len(),
            );
            fs::write(folder.join("Release"), release).unwrap();
        }
        self.offer(&format!(
            "deb [trusted=yes] file:{} old main\n",
            self.folder.display()
        ));
        let path = self.bench.path().join("apt.conf");
        let mut conf = fs::read_to_string(&path).unwrap();
        conf.push_str(
            "Acquire::AllowInsecureRepositories \"true\";\n\
             APT::Get::AllowUnauthenticated \"true\";\n",
        );
        fs::write(path, conf).unwrap();
    }

    fn build(&self) -> (Output, String) {
        self.build_kernel("packed")
    }

    fn build_kernel(&self, name: &str) -> (Output, String) {
        let output = Command::new(crate::bench::driver())
            .arg(self.bench.catalog())
            .arg(name)
            .env("NUMALAB_CACHE", self.bench.path().join("cache"))
            .env("APT_CONFIG", self.bench.path().join("apt.conf"))
            .current_dir(self.bench.path())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        (output, said)
    }
}

#[test]
fn a_package_is_fetched_once_and_its_version_recorded() {
    let Some(repository) = repository() else {
        return;
    };
    let (output, said) = repository.build();
    assert!(output.status.success(), "{said}");
    let manifest = String::from_utf8(output.stdout.clone()).unwrap();
    assert!(
        manifest.contains("\"version\": \"2:6.12.0-1~test1\""),
        "{manifest}"
    );
    let other = repository
        .bench
        .get_or_build(&repository.bench.wanted("small"))
        .unwrap();
    assert!(manifest.contains(&other.image_digest.to_string()));

    // From now on nothing is fetched: neither for the kernel, nor for its tree.
    fs::remove_dir_all(&repository.folder).unwrap();
    let (output, said) = repository.build();
    assert!(
        output.status.success() && !said.contains("fetching"),
        "{said}"
    );
    let cache = repository.bench.cache();
    for part in [Part::Kernels, Part::Trees] {
        for folder in folders(&cache.part(part)) {
            fs::remove_dir_all(folder).unwrap();
        }
    }
    let (output, said) = repository.build();
    assert!(
        output.status.success() && !said.contains("fetching"),
        "{said}"
    );
    assert!(said.contains("unpacking"), "{said}");
    // The tree alone is enough as well.
    for part in [Part::Kernels, Part::Sources] {
        for folder in folders(&cache.part(part)) {
            fs::remove_dir_all(folder).unwrap();
        }
    }
    let (output, said) = repository.build();
    assert!(
        output.status.success() && !said.contains("fetching"),
        "{said}"
    );
    assert!(!said.contains("unpacking"), "{said}");
}

#[test]
fn an_unpacking_that_was_cut_off_is_done_again() {
    let Some(repository) = repository() else {
        return;
    };
    let (output, said) = repository.build();
    assert!(output.status.success(), "{said}");
    let cache = repository.bench.cache();
    let [tree] = &folders(&cache.part(Part::Trees))[..] else {
        panic!("one tree is expected");
    };
    fs::remove_file(tree.join("source.json")).unwrap();
    fs::remove_file(tree.join("src/first.c")).unwrap();
    fs::write(tree.join("src/stray.c"), "int stray;\n").unwrap();
    for folder in folders(&cache.part(Part::Kernels)) {
        fs::remove_dir_all(folder).unwrap();
    }
    let (again, said) = repository.build();
    assert!(again.status.success(), "{said}");
    assert!(tree.join("src/first.c").exists() && !tree.join("src/stray.c").exists());
}

#[test]
fn a_suite_that_the_system_does_not_have_is_taken_from_its_mirror() {
    let Some(repository) = repository() else {
        return;
    };
    repository.mirror();
    let (output, said) = repository.build();
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(
        said.contains("none of the configured package sources has it"),
        "{said}"
    );
    let (output, said) = repository.build_kernel("of-suite");
    assert!(output.status.success(), "{said}");
    let manifest: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let source = &manifest["built"]["source"];
    assert_eq!(
        source["source"],
        serde_json::json!({"debian": PACKAGE, "suite": "new-backports"})
    );
    assert_eq!(source["version"], "2:6.12.0-1~test1");
    // What came from a suite is not what the system's own sources have.
    let (output, said) = repository.build();
    assert_eq!(output.status.code(), Some(3), "{said}");

    fs::remove_dir_all(repository.folder.join("dists/new-backports")).unwrap();
    fs::remove_dir_all(repository.bench.path().join("cache")).unwrap();
    let (output, said) = repository.build_kernel("of-suite");
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(
        said.contains("apt has no package linux-source-small of new-backports"),
        "{said}"
    );
}

#[test]
fn an_alternative_stands_in_for_a_package_that_nobody_has_and_for_no_failure() {
    let Some(repository) = repository() else {
        return;
    };
    let bench = &repository.bench;
    let bytes = fs::read(tarballs::pack(bench, &Packed::default())).unwrap();
    let server = Server::start(bytes.clone(), &[Act::Serve]);
    let text = format!(
        "summary: x\nsource: {{debian: {PACKAGE}}}\nalternative: {{url: \"{}\", sha256: {}}}\n\
         set: {{CONFIG_SMALL: y, CONFIG_NUMA: y}}\n",
        server.url(),
        Digest::of(&bytes)
    );
    bench.define("packed", &text);
    let sources = fs::read_to_string(bench.path().join("sources.list")).unwrap();
    // A network that is down is not a package that is not there.
    repository.offer("deb [trusted=yes] http://127.0.0.1:9/ ./\n");
    let (output, said) = repository.build();
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert_eq!(server.requests(), []);
    repository.offer(&sources);
    fs::write(repository.folder.join("Packages"), "").unwrap();
    let (output, said) = repository.build();
    assert!(output.status.success(), "{said}");
    assert!(
        said.contains("apt has no package linux-source-small; its alternative is used: http://"),
        "{said}"
    );
    let manifest: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(manifest["name"], "packed=linux-small.tar.gz");
    assert_eq!(manifest["built"]["source"]["source"]["url"], server.url());
    // It is told again, and apt is not asked again.
    fs::remove_dir_all(&repository.folder).unwrap();
    let (output, said) = repository.build();
    assert!(output.status.success(), "{said}");
    assert!(said.contains("its alternative is used"), "{said}");
    assert_eq!(server.requests().len(), 1);
}

#[test]
fn what_cannot_be_fetched_is_told_with_what_was_tried() {
    let Some(repository) = repository() else {
        return;
    };
    // Nothing listens on port 9 of this machine.
    repository.offer("deb [trusted=yes] http://127.0.0.1:9/ ./\n");
    let (output, said) = repository.build();
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(
        said.contains("cannot fetch the package linux-source-small"),
        "{said}"
    );
    assert!(said.contains("tried apt-get update and download"), "{said}");
    assert!(said.contains("127.0.0.1"), "{said}");
    assert!(said.contains("whole log: "), "{said}");
}

#[test]
fn a_damaged_package_is_not_taken() {
    let Some(repository) = repository() else {
        return;
    };
    let archive = repository.folder.join("source.deb");
    let mut bytes = fs::read(&archive).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&archive, bytes).unwrap();
    let (output, said) = repository.build();
    assert_eq!(output.status.code(), Some(3), "{said}");
    let cache = repository.bench.cache();
    assert_eq!(folders(&cache.part(Part::Sources)), Vec::<PathBuf>::new());
}

#[test]
fn a_package_that_nobody_has_is_told_as_such() {
    let Some(repository) = repository() else {
        return;
    };
    fs::write(repository.folder.join("Packages"), "").unwrap();
    let (output, said) = repository.build();
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(
        said.contains("none of the configured package sources has it"),
        "{said}"
    );
}
