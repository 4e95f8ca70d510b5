//! Configurations: what is granted, dropped and unknown.

use numalab_kernels::ErrorKind;

use crate::bench::{Bench, DEFINITION, Listener};

#[test]
fn a_dropped_option_is_an_error_with_its_dependencies() {
    let bench = Bench::new();
    bench.define(
        "lonely",
        "summary: x\nsource: {directory: source}\nset: {CONFIG_NUMA_BALANCING: y}\n",
    );
    let error = bench.get_or_build(&bench.wanted("lonely")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Input);
    assert_eq!(
        error.to_string(),
        "the kernel's configuration is not the one asked for:\n  \
         CONFIG_NUMA_BALANCING=y (lonely (set):1) exists but was dropped (its dependencies: NUMA; \
         here NUMA=n)"
    );
}

#[test]
fn an_unknown_option_is_a_warning_and_the_kernel_is_built() {
    let bench = Bench::new();
    bench.define("odd", &format!("{DEFINITION}  CONFIG_NO_SUCH_THING: y\n"));
    for _ in 0..2 {
        let listener = Listener::default();
        let kernel = bench.ensure_told(&bench.wanted("odd"), &listener).unwrap();
        let built = kernel.manifest.built.clone().unwrap();
        assert_eq!(
            built.warnings,
            ["CONFIG_NO_SUCH_THING (odd (set):1) does not exist in this version of the source"]
        );
        std::fs::remove_dir_all(kernel.image.parent().unwrap()).unwrap();
        let told = listener.text();
        assert!(told.contains("warning: CONFIG_NO_SUCH_THING"), "{told}");
    }
}

#[test]
fn an_option_that_some_versions_lack_is_checked_where_it_exists() {
    let bench = Bench::new();
    let mark = "# where it exists (since some version):\n";
    bench.write(
        "catalog/fragments/some.config",
        &format!("{mark}CONFIG_NO_SUCH_THING=y\n"),
    );
    bench.write(
        "catalog/fragments/dropped.config",
        &format!("{mark}CONFIG_NUMA_BALANCING=y\n"),
    );
    let define = |name: &str, fragment: &str| {
        let text = format!("summary: x\nsource: {{directory: source}}\nconfig: [{fragment}]\n");
        bench.define(name, &text);
        bench.get_or_build(&bench.wanted(name))
    };
    let kernel = define("some", "some").unwrap();
    assert_eq!(
        kernel.manifest.built.clone().unwrap().warnings,
        Vec::<String>::new()
    );
    let error = define("dropped", "dropped").unwrap_err();
    assert!(
        error
            .to_string()
            .contains("CONFIG_NUMA_BALANCING=y (dropped:2) exists but was dropped"),
        "{error}"
    );
}

#[test]
fn kernels_of_other_options_do_not_share_objects() {
    let bench = Bench::new();
    bench.define("more", &format!("{DEFINITION}  CONFIG_NUMA_BALANCING: y\n"));
    let small = bench.get_or_build(&bench.wanted("small")).unwrap();
    let more = bench.get_or_build(&bench.wanted("more")).unwrap();
    assert_ne!(small.key, more.key);
    assert_eq!(crate::bench::compiled(&more).len(), 3);
    assert_eq!(
        more.config_value("CONFIG_NUMA_BALANCING")
            .unwrap()
            .as_deref(),
        Some("y")
    );
}

#[test]
fn a_patch_to_kconfig_makes_the_configuration_anew() {
    let bench = Bench::new();
    bench.get_or_build(&bench.wanted("small")).unwrap();
    // NUMA now depends on an option that does not exist.
    let patch = "--- a/Kconfig\n+++ b/Kconfig\n@@ -5,3 +5,3 @@\n \tbool \"NUMA\"\n\
                 -\tdepends on SMALL\n+\tdepends on BIG\n \n";
    let error = bench
        .get_or_build(&bench.patched(patch, numalab_kernels::spec::Direction::Apply))
        .unwrap_err();
    assert!(error.to_string().contains("CONFIG_NUMA=y"), "{error}");
    bench.get_or_build(&bench.wanted("small")).unwrap();
}

#[test]
fn an_option_of_the_word_goes_in_and_is_a_part_of_the_name() {
    let bench = Bench::new();
    let small = bench.get_or_build(&bench.wanted("small")).unwrap();
    let wanted = bench.wanted("small+CONFIG_NUMA_BALANCING=y");
    assert_eq!(wanted.name, "small+NUMA_BALANCING=y");
    assert_eq!(wanted.word, "small+CONFIG_NUMA_BALANCING=y");
    let more = bench.get_or_build(&wanted).unwrap();
    assert_ne!(more.key, small.key);
    assert_eq!(
        more.config_value("CONFIG_NUMA_BALANCING")
            .unwrap()
            .as_deref(),
        Some("y")
    );
    let file = bench.write("own/more balance.config", "CONFIG_NUMA_BALANCING=y\n");
    let wanted = bench.wanted("small+fragment:own/more balance.config");
    assert_eq!(wanted.name, "small+more balance");
    assert_eq!(wanted.word, format!("small+fragment:{}", file.display()));
    assert_eq!(bench.get_or_build(&wanted).unwrap().key, more.key);
    // The last one wins, and a patch may come before or after.
    bench.write("change.patch", &crate::bench::change());
    let wanted =
        bench.wanted("small+fragment:own/more balance.config+change.patch+CONFIG_NUMA_BALANCING=n");
    assert!(wanted.expected.is_empty());
    let without = bench.get_or_build(&wanted).unwrap();
    assert_eq!(without.config_value("CONFIG_NUMA_BALANCING").unwrap(), None);
    assert_ne!(without.image_digest, small.image_digest);
}

#[test]
fn an_option_of_the_word_that_is_dropped_unknown_or_misspelt_is_refused() {
    let bench = Bench::new();
    for (piece, told) in [
        (
            "CONFIG_NUMA=n+CONFIG_NUMA_BALANCING=y",
            "CONFIG_NUMA_BALANCING=y (CONFIG_NUMA_BALANCING=y:1) exists but was dropped (its \
             dependencies: NUMA; here NUMA=n)",
        ),
        (
            "CONFIG_NUMA_BALANCNG=y",
            "does not exist in this version of the source; did you mean CONFIG_NUMA_BALANCING?",
        ),
        // It is off, but so would be whatever was meant.
        (
            "CONFIG_NUMA_BALANCNG=n",
            "does not exist in this version of the source; did you mean CONFIG_NUMA_BALANCING?",
        ),
    ] {
        // Also where the same was configured before without a word of the user's.
        bench.define("lax", &format!("{DEFINITION}  CONFIG_NUMA_BALANCNG: n\n"));
        bench.get_or_build(&bench.wanted("lax")).unwrap();
        let error = bench
            .get_or_build(&bench.wanted(&format!("small+{piece}")))
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Input);
        assert!(error.to_string().contains(told), "{error}");
    }
}

#[test]
fn a_whole_configuration_is_completed_and_what_changed_is_told() {
    let bench = Bench::new();
    bench.write(
        "catalog/fragments/contract.config",
        "CONFIG_SMALL=y\nCONFIG_NUMA=y\n# CONFIG_MODULES is not set\n",
    );
    bench.write(
        "my.config",
        "CONFIG_SMALL=y\n# CONFIG_NUMA is not set\nCONFIG_NR_CPUS=8\nCONFIG_GONE=y\nCONFIG_X=m\n",
    );
    let wanted = bench.wanted("small+config:my.config");
    assert_eq!(wanted.name, "small+config-my");
    let listener = Listener::default();
    let kernel = bench.ensure_told(&wanted, &listener).unwrap();
    let value = |option| kernel.config_value(option).unwrap();
    assert_eq!(value("CONFIG_NUMA").as_deref(), Some("y"));
    assert_eq!(value("CONFIG_NR_CPUS").as_deref(), Some("8"));
    let told = listener.text();
    assert!(
        told.contains("note: my.config: added or changed for the guest: CONFIG_NUMA=y (was n)"),
        "{told}"
    );
    assert!(
        told.contains("note: my.config: 1 options that make modules are off"),
        "{told}"
    );
    assert!(told.contains("CONFIG_GONE=n (was y)"), "{told}");
    // Another whole configuration is another kernel, and what the word adds wins.
    bench.write("other.config", "CONFIG_SMALL=y\nCONFIG_NR_CPUS=16\n");
    let other = bench
        .get_or_build(&bench.wanted("small+config:other.config"))
        .unwrap();
    assert_ne!(other.key, kernel.key);
    let word = "small+config:my.config+CONFIG_NR_CPUS=16";
    let more = bench.get_or_build(&bench.wanted(word)).unwrap();
    assert_eq!(
        more.config_value("CONFIG_NR_CPUS").unwrap().as_deref(),
        Some("16")
    );
    // What is told once is told again when the kernel is in the store.
    let listener = Listener::default();
    bench.ensure_told(&wanted, &listener).unwrap();
    assert!(
        listener.text().contains("CONFIG_NUMA=y (was n)"),
        "{}",
        listener.text()
    );
}
