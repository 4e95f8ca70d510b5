//! Configurations: what is granted, dropped and unknown.

use numalab_kernels::Class;

use crate::bench::{Bench, DEFINITION, Listener};

#[test]
fn a_dropped_option_is_an_error_with_its_dependencies() {
    let bench = Bench::new();
    bench.define(
        "lonely",
        "summary: x\nsource: {directory: source}\nset: {CONFIG_NUMA_BALANCING: y}\n",
    );
    let error = bench.ensure(&bench.wanted("lonely")).unwrap_err();
    assert_eq!(error.class(), Class::Input);
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
        bench.ensure(&bench.wanted(name))
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
    let small = bench.ensure(&bench.wanted("small")).unwrap();
    let more = bench.ensure(&bench.wanted("more")).unwrap();
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
    bench.ensure(&bench.wanted("small")).unwrap();
    // NUMA now depends on an option that does not exist.
    let patch = "--- a/Kconfig\n+++ b/Kconfig\n@@ -5,3 +5,3 @@\n \tbool \"NUMA\"\n\
                 -\tdepends on SMALL\n+\tdepends on BIG\n \n";
    let error = bench
        .ensure(&bench.patched(patch, numalab_kernels::wanted::Direction::Apply))
        .unwrap_err();
    assert!(error.to_string().contains("CONFIG_NUMA=y"), "{error}");
    bench.ensure(&bench.wanted("small")).unwrap();
}
