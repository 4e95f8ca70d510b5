//! The shipped definitions, as data.

use std::path::{Path, PathBuf};

use numalab_kernels::catalog::definition::Start;
use numalab_kernels::config::{REQUIRED, Requested};
use numalab_kernels::spec::{Direction, ExpectedVerdict, Origin, Package, Source};
use numalab_kernels::{Cache, Catalog, KernelSpec};

fn debian(name: &str, suite: Option<&str>) -> Source {
    Source::Debian(Package {
        name: name.to_owned(),
        suite: suite.map(str::to_owned),
    })
}

fn catalog() -> Catalog {
    Catalog::load(Path::new(env!("CARGO_MANIFEST_DIR"))).unwrap()
}

fn wanted(name: &str) -> KernelSpec {
    let folder = tempfile::tempdir().unwrap();
    let cache = Cache::open(folder.path()).unwrap();
    catalog().resolve(name, Path::new("/"), &cache).unwrap()
}

#[test]
fn the_matrix_has_the_kernels_that_are_told_apart() {
    let names: Vec<String> = catalog()
        .matrix()
        .unwrap()
        .into_iter()
        .map(|wanted| wanted.name)
        .collect();
    assert_eq!(
        names,
        [
            "cpuset-skip",
            "linux-6.1",
            "linux-6.12",
            "linux-7.2",
            "no-late-vma-scan",
            "no-scan-period-limit"
        ]
    );
}

#[test]
fn each_kernel_is_expected_to_do_what_its_patch_says() {
    let cases = [
        ("linux-6.1", ExpectedVerdict::Fail, ExpectedVerdict::Pass),
        ("linux-6.12", ExpectedVerdict::Fail, ExpectedVerdict::Pass),
        ("linux-7.2", ExpectedVerdict::Pass, ExpectedVerdict::Pass),
        ("cpuset-skip", ExpectedVerdict::Pass, ExpectedVerdict::Pass),
        (
            "no-late-vma-scan",
            ExpectedVerdict::Fail,
            ExpectedVerdict::Fail,
        ),
        (
            "no-scan-period-limit",
            ExpectedVerdict::Fail,
            ExpectedVerdict::Pass,
        ),
    ];
    for (name, skip, late) in cases {
        let wanted = wanted(name);
        assert_eq!(wanted.expects("cpuset/single-node-skip"), skip, "{name}");
        assert_eq!(wanted.expects("vma/late-vma-scan"), late, "{name}");
    }
}

#[test]
fn the_variants_share_the_bases_source_and_options() {
    let recipe = |name: &str| match wanted(name).origin {
        Origin::Recipe(recipe) => recipe,
        Origin::Image(path) | Origin::Package(path) => panic!("{path:?}"),
    };
    let base = recipe("linux-6.12");
    assert_eq!(base.source, debian("linux-source-6.12", None));
    assert!(base.patches.is_empty());
    for name in ["cpuset-skip", "no-late-vma-scan", "no-scan-period-limit"] {
        let variant = recipe(name);
        assert_eq!(variant.source, base.source);
        assert_eq!(variant.fragments, base.fragments);
        assert_eq!(variant.patches.len(), 1);
        assert_eq!(variant.patches[0].direction, Direction::Apply);
        let text = String::from_utf8(variant.patches[0].bytes.clone()).unwrap();
        assert!(
            text.contains("SPDX-License-Identifier: GPL-2.0-only"),
            "{name}"
        );
    }
    let without = Requested::read(&recipe("no-numa-balancing").fragments).unwrap();
    assert!(
        without
            .text()
            .contains("# CONFIG_NUMA_BALANCING is not set\n")
    );
}

#[test]
fn kernels_of_a_package_have_an_alternative_of_the_same_release() {
    for definition in catalog().definitions() {
        let Start::Source(Source::Debian(package)) = &definition.start else {
            continue;
        };
        let Some(Source::Url { url, .. }) = &definition.alternative else {
            panic!("{} has no alternative", definition.name);
        };
        let release = package.name.strip_prefix("linux-source-").unwrap();
        let major = release.split('.').next().unwrap();
        let begins = format!("https://cdn.kernel.org/pub/linux/kernel/v{major}.x/linux-{release}.");
        assert!(
            url.starts_with(&begins) && url.ends_with(".tar.xz"),
            "{url}"
        );
    }
}

#[test]
fn what_the_guest_contract_needs_is_asked_for() {
    let Origin::Recipe(recipe) = wanted("linux-6.12").origin else {
        panic!("it is built");
    };
    let text = Requested::read(&recipe.fragments).unwrap().text();
    // What somebody's whole configuration is completed with.
    let contract = include_str!("../../fragments/contract.config");
    for (option, _) in REQUIRED {
        let line = format!("{option}=y\n");
        assert!(text.contains(&line) && contract.contains(&line), "{option}");
    }
}

#[test]
fn every_patch_file_is_used() {
    let folder: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("patches");
    let used: Vec<PathBuf> = catalog()
        .definitions()
        .flat_map(|definition| definition.apply.iter().chain(&definition.revert))
        .map(|name| folder.join(name))
        .collect();
    for item in std::fs::read_dir(&folder).unwrap() {
        let path = item.unwrap().path();
        assert!(used.contains(&path), "{path:?}");
    }
}
