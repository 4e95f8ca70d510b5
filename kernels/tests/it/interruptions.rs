//! Processes that come together, and processes that are killed.

use std::fs;
use std::process::{Child, Output};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use numalab_kernels::cache::Part;
use numalab_kernels::{ErrorKind, get_or_build};

use crate::bench::{Bench, Listener, compiled, folders, processes_in, wait_for};

fn end(child: Child) -> (Output, String) {
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    (output, said)
}

/// Starts a build that takes long in the middle, and waits until it is there.
fn start_slow(bench: &Bench, seconds: &str) -> Child {
    fs::write(bench.source().join("slow"), seconds).unwrap();
    let child = bench.spawn("small");
    let trees = bench.cache().part(Part::Trees);
    wait_for("the compilation", || {
        walk(&trees).iter().any(|path| path.ends_with("/running"))
    });
    child
}

fn walk(path: &std::path::Path) -> Vec<String> {
    let mut found = Vec::new();
    for item in fs::read_dir(path).into_iter().flatten().flatten() {
        found.push(item.path().to_string_lossy().into_owned());
        if item.file_type().is_ok_and(|kind| kind.is_dir()) {
            found.extend(walk(&item.path()));
        }
    }
    found
}

#[test]
fn two_processes_build_one_kernel_once() {
    let bench = Bench::new();
    let first = start_slow(&bench, "2");
    let second = bench.spawn("small");
    let (first, first_said) = end(first);
    let (second, second_said) = end(second);
    assert!(first.status.success(), "{first_said}");
    assert!(second.status.success(), "{second_said}");
    assert_eq!(first.stdout, second.stdout);
    assert!(first_said.contains("compiling"), "{first_said}");
    assert!(second_said.contains("waiting for trees/"), "{second_said}");
    assert!(!second_said.contains("compiling"), "{second_said}");
}

#[test]
fn a_killed_build_leaves_one_make_and_the_next_is_as_clean_as_the_first() {
    let bench = Bench::new();
    let clean = {
        let other = Bench::new();
        other.get_or_build(&other.wanted("small")).unwrap()
    };
    let mut child = start_slow(&bench, "2");
    child.kill().unwrap();
    child.wait().unwrap();
    // What a compiler that lived on may leave: newer than its source, and wrong.
    let objects = bench.objects();
    assert!(
        processes_in(&objects)
            .iter()
            .any(|line| line.contains("make")),
        "the build is deaf to its end for two seconds, so the lock is tried for real"
    );
    fs::write(objects.join("third.o"), "cut off").unwrap();
    fs::write(bench.source().join("slow"), "").unwrap();

    let start = Instant::now();
    let listener = Listener::default();
    let kernel = bench
        .ensure_told(&bench.wanted("small"), &listener)
        .unwrap();
    let told = listener.text();
    assert!(told.contains("waiting for trees/"), "{told}");
    assert!(told.contains("an earlier build was interrupted"), "{told}");
    assert!(start.elapsed() < Duration::from_secs(30));
    assert_eq!(kernel.image_digest, clean.image_digest);
    assert_eq!(compiled(&kernel), ["first.o", "second.o", "third.o"]);
    assert_eq!(processes_in(bench.path()), Vec::<String>::new());
}

#[test]
fn a_kill_during_a_patched_build_does_not_reach_the_base() {
    let bench = Bench::new();
    let base = bench.get_or_build(&bench.wanted("small")).unwrap();
    bench.write("change.patch", &crate::bench::change());
    fs::write(bench.source().join("slow"), "1").unwrap();
    let mut child = bench.spawn("small+change.patch");
    wait_for("the compilation", || {
        bench.objects().join("running").exists()
    });
    child.kill().unwrap();
    child.wait().unwrap();
    fs::remove_file(bench.source().join("slow")).unwrap();
    fs::remove_dir_all(base.image.parent().unwrap()).unwrap();
    let back = bench.get_or_build(&bench.wanted("small")).unwrap();
    assert_eq!(back.image_digest, base.image_digest);
    let patched = bench
        .get_or_build(&bench.wanted("small+change.patch"))
        .unwrap();
    assert_ne!(patched.image_digest, base.image_digest);
}

#[test]
fn cancelling_ends_make_soon_and_the_cache_stays_usable() {
    let bench = Bench::new();
    fs::write(bench.source().join("slow"), "60").unwrap();
    let cancel = AtomicBool::new(false);
    let wanted = bench.wanted("small");
    let cache = bench.cache();
    let listener = Listener::default();
    let mut ended = None;
    std::thread::scope(|scope| {
        let build =
            scope.spawn(|| get_or_build(&cache, &wanted, &bench.options, &listener, &cancel));
        wait_for("the compilation", || {
            walk(&cache.part(Part::Trees))
                .iter()
                .any(|path| path.ends_with("/running"))
        });
        cancel.store(true, Ordering::Relaxed);
        let start = Instant::now();
        let error = build.join().unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Interrupted);
        ended = Some(start.elapsed());
    });
    assert!(ended.unwrap() < Duration::from_secs(20), "{ended:?}");
    assert_eq!(processes_in(bench.path()), Vec::<String>::new());
    fs::write(bench.source().join("slow"), "").unwrap();
    fs::remove_dir(bench.objects().join("running")).unwrap();
    bench.get_or_build(&wanted).unwrap();
}

#[test]
fn waiting_for_a_build_has_a_deadline_and_names_the_holder() {
    let mut bench = Bench::new();
    let child = start_slow(&bench, "3");
    bench.options.wait_deadline = Duration::from_millis(300);
    let id = child.id();
    let error = bench.get_or_build(&bench.wanted("small")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Environment);
    assert!(
        error.to_string().contains(&format!("process {id}")),
        "{error}"
    );
    let (output, said) = end(child);
    assert!(output.status.success(), "{said}");
}

#[test]
fn object_trees_from_the_future_are_not_trusted() {
    let bench = Bench::new();
    let base = bench.get_or_build(&bench.wanted("small")).unwrap();
    let tree = bench.objects().parent().unwrap().to_owned();
    let future = std::time::SystemTime::now() + Duration::from_secs(3600);
    let last = fs::File::options()
        .write(true)
        .open(tree.join("last-build"))
        .unwrap();
    last.set_modified(future).unwrap();
    let object = bench.objects().join("second.o");
    fs::File::options()
        .write(true)
        .open(&object)
        .unwrap()
        .set_modified(future)
        .unwrap();
    let patched = bench
        .get_or_build(&bench.patched(
            &crate::bench::change(),
            numalab_kernels::spec::Direction::Apply,
        ))
        .unwrap();
    assert_ne!(patched.image_digest, base.image_digest);
}

#[test]
fn kills_at_any_moment_leave_a_cache_that_gives_the_same_bytes() {
    let clean = Bench::new();
    clean.write("change.patch", &crate::bench::change());
    let words = ["small", "small+change.patch"];
    let expected = words.map(|word| {
        clean
            .get_or_build(&clean.wanted(word))
            .unwrap()
            .image_digest
    });

    let bench = Bench::new();
    bench.write("change.patch", &crate::bench::change());
    // One whole build takes about as long as the longest of these.
    for (count, delay) in (20..500).step_by(30).enumerate() {
        let mut child = bench.spawn(words[count % 2]);
        std::thread::sleep(Duration::from_millis(delay));
        child.kill().unwrap();
        child.wait().unwrap();
    }
    for (word, expected) in words.iter().zip(expected).rev() {
        let kernel = bench.get_or_build(&bench.wanted(word)).unwrap();
        assert_eq!(kernel.image_digest, expected, "{word}");
    }
    // Nothing half-made is left, and none of them is taken for an entry.
    let cache = bench.cache();
    assert_eq!(cache.sweep().unwrap(), 0);
    for entry in cache.list().unwrap() {
        assert!(!entry.in_use, "{entry:?}");
    }
    assert_eq!(folders(&cache.part(Part::Kernels)).len(), 2);
}
