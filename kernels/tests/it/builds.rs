//! Building: what is compiled again, that bytes come back, and what failures say.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use numalab_kernels::cache::Part;
use numalab_kernels::spec::Direction;
use numalab_kernels::{BuildError, ErrorKind, KernelError, get_or_build};

use crate::bench::{Bench, Listener, change, compiled, diff};

#[test]
fn a_kernel_is_built_once_and_then_found() {
    let bench = Bench::new();
    let wanted = bench.wanted("small");
    let kernel = bench.get_or_build(&wanted).unwrap();
    assert_eq!(kernel.release, "6.12.0-small");
    assert_eq!(
        kernel.config_value("CONFIG_NUMA").unwrap().as_deref(),
        Some("y")
    );
    assert_eq!(kernel.config_value("CONFIG_NUMA_BALANCING").unwrap(), None);
    assert_eq!(compiled(&kernel), ["first.o", "second.o", "third.o"]);
    assert!(kernel.system_map().is_some());

    let listener = Listener::default();
    let again = bench.ensure_told(&wanted, &listener).unwrap();
    assert_eq!(again.key, kernel.key);
    assert_eq!(again.manifest, kernel.manifest);
    assert!(
        !listener.text().contains("compiling"),
        "{}",
        listener.text()
    );
}

#[test]
fn a_patch_recompiles_what_it_touches_and_back_gives_the_same_bytes() {
    let bench = Bench::new();
    let base = bench.get_or_build(&bench.wanted("small")).unwrap();
    let patched = bench
        .get_or_build(&bench.patched(&change(), Direction::Apply))
        .unwrap();
    assert_eq!(compiled(&patched), ["second.o"]);
    assert_ne!(patched.image_digest, base.image_digest);

    bench.cache().list().unwrap();
    fs::remove_dir_all(base.image.parent().unwrap()).unwrap();
    let back = bench.get_or_build(&bench.wanted("small")).unwrap();
    assert_eq!(compiled(&back), ["second.o"]);
    assert_eq!(back.image_digest, base.image_digest);
    assert_eq!(back.key, base.key);
}

#[test]
fn a_comment_changes_the_key_and_not_the_image() {
    let bench = Bench::new();
    let base = bench.get_or_build(&bench.wanted("small")).unwrap();
    let comment = diff("second.c", "\t/* two */", "\t/* zwei */");
    let patched = bench
        .get_or_build(&bench.patched(&comment, Direction::Apply))
        .unwrap();
    assert_ne!(patched.key, base.key);
    assert_eq!(patched.image_digest, base.image_digest);
}

#[test]
fn two_caches_in_different_places_give_the_same_bytes() {
    let (one, other) = (Bench::new(), Bench::new());
    let left = one.get_or_build(&one.wanted("small")).unwrap();
    let right = other.get_or_build(&other.wanted("small")).unwrap();
    assert_ne!(left.image, right.image);
    assert_eq!(
        (left.key, left.image_digest),
        (right.key, right.image_digest)
    );
}

#[test]
fn a_patched_header_recompiles_its_users() {
    let bench = Bench::new();
    bench.get_or_build(&bench.wanted("small")).unwrap();
    let patch = "--- a/include/value.h\n+++ b/include/value.h\n@@ -1 +1 @@\n\
                 -#define VALUE 1\n+#define VALUE 2\n";
    let patched = bench
        .get_or_build(&bench.patched(patch, Direction::Apply))
        .unwrap();
    assert_eq!(compiled(&patched), ["first.o"]);
}

#[test]
fn a_header_that_hides_another_gets_objects_of_its_own() {
    let bench = Bench::new();
    let base = bench.get_or_build(&bench.wanted("small")).unwrap();
    // Found before include/value.h, which first.o depended on.
    let patch = "--- /dev/null\n+++ b/value.h\n@@ -0,0 +1 @@\n+#define VALUE 3\n";
    let patched = bench
        .get_or_build(&bench.patched(patch, Direction::Apply))
        .unwrap();
    assert_ne!(patched.image_digest, base.image_digest);
    fs::remove_dir_all(base.image.parent().unwrap()).unwrap();
    let back = bench.get_or_build(&bench.wanted("small")).unwrap();
    assert_eq!(back.image_digest, base.image_digest);
    assert_eq!(compiled(&back), Vec::<String>::new());
}

#[test]
fn build_variables_of_the_environment_do_not_get_in() {
    let bench = Bench::new();
    let clean = bench.get_or_build(&bench.wanted("small")).unwrap();
    let dirty = Bench::new();
    let mut command = Command::new(crate::bench::driver());
    let variables = [
        "KBUILD_OUTPUT",
        "ARCH",
        "CROSS_COMPILE",
        "MAKEFLAGS",
        "CC",
        "HOSTCC",
        "KCONFIG_CONFIG",
        "KCONFIG_ALLCONFIG",
        "KCFLAGS",
        "KBUILD_BUILD_USER",
        "KBUILD_BUILD_TIMESTAMP",
        "CPATH",
        "LOCALVERSION",
        "GIT_DIR",
        "GIT_WORK_TREE",
        "GCC_EXEC_PREFIX",
        "MFLAGS",
        "BASH_ENV",
        "V",
        "O",
        "INSTALL_PATH",
        "SOURCE_DATE_EPOCH",
        "LANG",
        "LC_ALL",
    ];
    command
        .arg(dirty.catalog())
        .arg("small")
        .env("NUMALAB_CACHE", dirty.path().join("cache"))
        .current_dir(dirty.path())
        .envs(variables.map(|name| (name, "/nowhere")));
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    let found = dirty.get_or_build(&dirty.wanted("small")).unwrap();
    assert_eq!(found.image_digest, clean.image_digest);
    let seen = fs::read_to_string(dirty.objects().join("environment")).unwrap();
    assert!(!seen.contains("nowhere"), "{seen}");
    assert!(seen.contains("LC_ALL=C\n"), "{seen}");
}

#[test]
fn a_compilers_errors_are_told_with_the_logs_place() {
    let bench = Bench::new();
    let broken = diff("second.c", "\treturn value + 1;", "\treturn valeu;");
    let wanted = bench.patched(&broken, Direction::Apply);
    let error = bench.get_or_build(&wanted).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Build);
    let KernelError::Build(BuildError::Compile { lines, log, .. }) = &error else {
        panic!("{error:?}");
    };
    assert!(
        lines[0].contains("second.c:5:16: error:") && lines[0].contains("valeu"),
        "{lines:?}"
    );
    assert!(fs::read_to_string(log).unwrap().contains("valeu"));
    assert!(
        error.to_string().contains(&log.display().to_string()),
        "{error}"
    );
    // The next kernel is none the worse for it.
    bench.get_or_build(&bench.wanted("small")).unwrap();
}

#[test]
fn a_kernel_keeps_the_warnings_of_all_that_it_was_built_from() {
    let bench = Bench::new();
    let base = bench.get_or_build(&bench.wanted("small")).unwrap();
    assert_eq!(base.warnings().unwrap(), Some(Vec::new()));

    let text = "\treturn value + 1;\n+#warning \"two\"";
    let warns = diff("second.c", "\treturn value + 1;", text).replace(",3 @@\n", ",4 @@\n");
    let warns = warns.replacen("@@ -4,4 +", "@@ -4,3 +", 1);
    let texts = |kernel: &numalab_kernels::Kernel| {
        let warnings = kernel.warnings().unwrap().unwrap();
        let texts = warnings.iter().map(|warning| {
            let place = (warning.file.as_str(), warning.line);
            assert_eq!(place, ("second.c", Some(6)));
            warning.text.clone()
        });
        texts.collect::<Vec<_>>()
    };
    let expected = ["#warning \"two\" [-Wcpp]"];
    let one = bench
        .get_or_build(&bench.patched(&warns, Direction::Apply))
        .unwrap();
    assert_eq!(texts(&one), expected);

    // second.c is not compiled again, and its compiler's warning stands.
    let both = format!(
        "{warns}{}",
        "--- a/include/value.h\n+++ b/include/value.h\n@@ -1 +1 @@\n-#define VALUE 1\n+#define VALUE 2\n"
    );
    let two = bench
        .get_or_build(&bench.patched(&both, Direction::Apply))
        .unwrap();
    assert_eq!(compiled(&two), ["first.o"]);
    assert_eq!(texts(&two), expected);

    // An entry of an earlier release has no such file.
    fs::remove_file(two.image.with_file_name("warnings.json")).unwrap();
    let two = bench
        .get_or_build(&bench.patched(&both, Direction::Apply))
        .unwrap();
    assert_eq!(two.warnings().unwrap(), None);
}

#[test]
fn a_damaged_image_is_made_again_and_told() {
    let bench = Bench::new();
    let kernel = bench.get_or_build(&bench.wanted("small")).unwrap();
    let mut bytes = fs::read(&kernel.image).unwrap();
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    fs::write(&kernel.image, bytes).unwrap();
    let listener = Listener::default();
    let again = bench
        .ensure_told(&bench.wanted("small"), &listener)
        .unwrap();
    assert_eq!(again.image_digest, kernel.image_digest);
    let told = listener.text();
    assert!(
        told.contains("warning: the kernel small in the cache is damaged"),
        "{told}"
    );
    assert_eq!(
        numalab_kernels::Digest::of_file(&again.image).unwrap(),
        again.image_digest
    );
}

#[test]
fn missing_tools_are_told_with_their_packages() {
    let mut bench = Bench::new();
    let tools = bench.path().join("tools");
    fs::create_dir(&tools).unwrap();
    for tool in ["gcc", "ld"] {
        symlink(which::which(tool).unwrap(), tools.join(tool)).unwrap();
    }
    bench.options.path = Some(tools.into_os_string());
    let error = bench.get_or_build(&bench.wanted("small")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Environment);
    assert_eq!(
        error.to_string(),
        "building a kernel needs what this machine does not have: make, strip\n  \
         Debian, Ubuntu: apt-get install binutils make\n  \
         Fedora: dnf install binutils make\n  \
         Arch: pacman -S binutils make\n  \
         openSUSE: zypper install binutils make"
    );
    let error = bench
        .get_or_build(&bench.patched(&change(), Direction::Apply))
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Environment);
}

#[test]
fn the_compilers_cache_is_used_within_ours_and_changes_no_byte() {
    let mut bench = Bench::new();
    let expected = {
        let other = Bench::new();
        other
            .get_or_build(&other.wanted("small"))
            .unwrap()
            .image_digest
    };
    // What ccache does, as far as a build sees it.
    let shim = bench.write(
        "tools/ccache",
        "#!/bin/sh\necho \"$@\" >> \"$CCACHE_DIR/calls\"\nexec \"$@\"\n",
    );
    fs::set_permissions(&shim, fs::Permissions::from_mode(0o755)).unwrap();
    let mut path = shim.parent().unwrap().as_os_str().to_owned();
    path.push(":");
    path.push(std::env::var_os("PATH").unwrap());
    bench.options.path = Some(path);
    bench.options.ccache = false;
    let without = bench.get_or_build(&bench.wanted("small")).unwrap();
    let calls = bench.cache().part(Part::Tools).join("ccache/calls");
    assert!(!calls.exists());
    fs::remove_dir_all(without.image.parent().unwrap()).unwrap();

    bench.options.ccache = true;
    let kernel = bench.get_or_build(&bench.wanted("small")).unwrap();
    assert!(kernel.manifest.built.as_ref().unwrap().ccache);
    let calls = fs::read_to_string(calls).unwrap();
    assert!(
        calls.contains("gcc") && calls.contains("second.c"),
        "{calls}"
    );
    assert_eq!(kernel.image_digest, expected);
}

#[test]
fn a_deadline_ends_the_build() {
    let mut bench = Bench::new();
    fs::write(bench.source().join("slow"), "30").unwrap();
    bench.options.build_deadline = std::time::Duration::from_millis(500);
    let start = Instant::now();
    let error = bench.get_or_build(&bench.wanted("small")).unwrap_err();
    assert!(start.elapsed().as_secs() < 20, "{:?}", start.elapsed());
    assert_eq!(error.kind(), ErrorKind::Environment);
    assert!(error.to_string().contains("deadline"), "{error}");
    assert_eq!(
        crate::bench::processes_in(bench.path()),
        Vec::<String>::new()
    );
}

#[test]
fn steps_are_counted_against_the_last_build() {
    let bench = Bench::new();
    bench.get_or_build(&bench.wanted("small")).unwrap();
    let trees = bench.cache().part(Part::Trees);
    assert_eq!(fs::read_to_string(trees.join(".cold-steps")).unwrap(), "4");
    bench
        .get_or_build(&bench.patched(&change(), Direction::Apply))
        .unwrap();
    fs::write(bench.source().join("slow"), "0.3").unwrap();
    let comment = diff("second.c", "\t/* two */", "\t/* due */");
    let listener = Listener::default();
    bench
        .ensure_told(&bench.patched(&comment, Direction::Apply), &listener)
        .unwrap();
    let told = listener.text();
    assert!(told.contains("compiling 1 of Some(2)"), "{told}");
    assert!(told.contains("|   CC      second.o"), "{told}");
}

#[test]
fn an_interrupted_caller_gets_its_own_class() {
    let bench = Bench::new();
    let cancel = AtomicBool::new(true);
    let error = get_or_build(
        &bench.cache(),
        &bench.wanted("small"),
        &bench.options,
        &numalab_kernels::progress::Silent,
        &cancel,
    )
    .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Interrupted);
}

#[test]
fn what_a_compiler_or_this_machine_cannot_do_is_not_the_sources_fault() {
    for (said, kind, told) in [
        (
            "cannot use keyword 'false' as enumeration constant",
            ErrorKind::Environment,
            "is too new for Linux 6.12.0-small: it takes C23 for granted",
        ),
        (
            "Killed signal terminated program cc1",
            ErrorKind::Environment,
            "try fewer jobs than 2",
        ),
        (
            "fatal error: openssl/bio.h: No such file or directory",
            ErrorKind::Environment,
            "Debian, Ubuntu: apt-get install libssl-dev",
        ),
        ("something else", ErrorKind::Build, "something else"),
    ] {
        let bench = Bench::new();
        let text = format!("\treturn value + 1;\n#error x.c:1:1: {said}");
        let broken = diff(
            "second.c",
            "\treturn value + 1;",
            &text.replace('\n', "\n+"),
        );
        let broken = broken.replace(",3 @@\n", ",4 @@\n");
        let error = bench
            .get_or_build(&bench.patched(&broken, Direction::Apply))
            .unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.to_string().contains(told), "{error}");
        // The next kernel is none the worse for it.
        bench.get_or_build(&bench.wanted("small")).unwrap();
    }
}

#[test]
fn a_kernel_that_is_too_old_to_be_started_is_refused_before_anything_is_compiled() {
    let bench = Bench::new();
    let makefile = bench.source().join("Makefile");
    let text = fs::read_to_string(&makefile).unwrap();
    fs::write(&makefile, text.replace("VERSION = 6\n", "VERSION = 4\n")).unwrap();
    let listener = Listener::default();
    let error = bench
        .ensure_told(&bench.wanted("small"), &listener)
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Environment);
    assert!(
        error.to_string().contains("small is Linux 4.12.0-small"),
        "{error}"
    );
    assert!(
        !listener.text().contains("compiling"),
        "{}",
        listener.text()
    );
}

#[test]
fn another_compiler_is_used_and_one_that_is_not_here_is_told_with_its_package() {
    let mut bench = Bench::new();
    let gcc = bench.get_or_build(&bench.wanted("small")).unwrap();
    let other = bench.write(
        "bin/my-gcc",
        "#!/bin/sh\ncase $1 in --version) echo my-gcc 1;; *) exec gcc \"$@\";; esac\n",
    );
    let mut mode = fs::metadata(&other).unwrap().permissions();
    std::os::unix::fs::PermissionsExt::set_mode(&mut mode, 0o755);
    fs::set_permissions(&other, mode).unwrap();
    bench.options.compiler = other.to_str().unwrap().to_owned();
    let kernel = bench.get_or_build(&bench.wanted("small")).unwrap();
    assert_ne!(kernel.key, gcc.key);
    assert_eq!(
        kernel.manifest.built.as_ref().unwrap().toolchain.compiler,
        "my-gcc 1"
    );
    // A path that make and shells would take apart, and a command of several words.
    let odd = bench.path().join("a b/$x's/gcc");
    fs::create_dir_all(odd.parent().unwrap()).unwrap();
    fs::copy(&other, &odd).unwrap();
    bench.options.compiler = odd.to_str().unwrap().to_owned();
    let odd = bench.get_or_build(&bench.wanted("small")).unwrap();
    assert_eq!(odd.key, kernel.key);
    fs::remove_dir_all(odd.image.parent().unwrap()).unwrap();
    let odd = bench.get_or_build(&bench.wanted("small")).unwrap();
    assert_eq!(odd.image_digest, gcc.image_digest);
    for (command, same) in [("ccache gcc", &gcc), ("env gcc", &gcc)] {
        bench.options.compiler = command.to_owned();
        let found = bench.get_or_build(&bench.wanted("small")).unwrap();
        assert_eq!(found.key, same.key, "{command}");
    }
    let _ = fs::remove_dir_all(gcc.image.parent().unwrap());
    let built = bench.get_or_build(&bench.wanted("small")).unwrap();
    assert_eq!(built.image_digest, gcc.image_digest);
    bench.options.compiler = "gcc-1234".to_owned();
    let error = bench.get_or_build(&bench.wanted("small")).unwrap_err();
    assert!(
        error.to_string().contains("apt-get install gcc-1234"),
        "{error}"
    );
}
