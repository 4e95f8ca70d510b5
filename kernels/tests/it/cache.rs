//! The cache directory: errors, locks, lists, pruning, and what kills leave behind.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, SystemTime};

use numalab_kernels::cache::{Cache, CacheError, Part, Prune, Wait};
use numalab_kernels::{ErrorKind, KernelError};

use crate::bench::Bench;

static NEVER: AtomicBool = AtomicBool::new(false);

fn at_once() -> Wait<'static> {
    Wait {
        deadline: Duration::ZERO,
        cancel: &NEVER,
        on_wait: &|_| {},
    }
}

fn entry(cache: &Cache, part: Part, name: &str, bytes: usize, age: u64) {
    let new = cache.temporary(part).unwrap();
    fs::write(new.path().join("data"), vec![1; bytes]).unwrap();
    drop(new.publish(name).unwrap());
    let used = SystemTime::now() - Duration::from_secs(age);
    fs::File::options()
        .write(true)
        .open(cache.entry(part, name).join("lock"))
        .unwrap()
        .set_modified(used)
        .unwrap();
}

fn names(cache: &Cache) -> Vec<String> {
    let list = cache.list().unwrap();
    list.into_iter()
        .map(|entry| format!("{}/{}", entry.part, entry.name))
        .collect()
}

#[test]
fn entries_are_listed_with_their_sizes_and_pruned_by_age_and_size() {
    let folder = tempfile::tempdir().unwrap();
    let cache = Cache::open(folder.path()).unwrap();
    entry(&cache, Part::Kernels, "old", 100_000, 5000);
    entry(&cache, Part::Kernels, "used", 100_000, 4000);
    entry(&cache, Part::Images, "middle", 100_000, 3000);
    entry(&cache, Part::Snapshots, "new", 100_000, 10);
    let list = cache.list().unwrap();
    assert_eq!(
        names(&cache),
        [
            "kernels/old",
            "kernels/used",
            "images/middle",
            "snapshots/new"
        ]
    );
    assert!(
        list.iter()
            .all(|entry| (100_000..130_000).contains(&entry.bytes) && !entry.in_use)
    );

    let lock = cache
        .read(Part::Kernels, "used", &at_once())
        .unwrap()
        .unwrap();
    // Reading it has made it the newest; it is made old again to be in the way.
    let file = fs::File::options()
        .write(true)
        .open(lock.entry().join("lock"))
        .unwrap();
    file.set_modified(SystemTime::now() - Duration::from_secs(4000))
        .unwrap();
    let by_age = Prune {
        older_than: Some(Duration::from_secs(3500)),
        ..Prune::default()
    };
    let dry = cache
        .prune(&Prune {
            dry_run: true,
            ..by_age
        })
        .unwrap();
    assert_eq!(dry.removed.len(), 1);
    assert_eq!(names(&cache).len(), 4);
    let pruned = cache.prune(&by_age).unwrap();
    assert_eq!(pruned.removed[0].name, "old");
    assert_eq!(pruned.kept_in_use[0].name, "used");
    assert_eq!(
        names(&cache),
        ["kernels/used", "images/middle", "snapshots/new"]
    );
    assert!(lock.entry().join("data").is_file());
    drop(lock);

    let by_size = Prune {
        at_most: Some(250_000),
        ..Prune::default()
    };
    let pruned = cache.prune(&by_size).unwrap();
    assert_eq!(pruned.removed[0].name, "used");
    assert_eq!(names(&cache), ["images/middle", "snapshots/new"]);
    assert!(pruned.left <= 250_000);
}

#[test]
fn a_file_that_a_process_has_locked_is_not_pruned() {
    let folder = tempfile::tempdir().unwrap();
    let cache = Cache::open(folder.path()).unwrap();
    let image = cache.entry(Part::Images, "initramfs.cpio");
    fs::write(&image, "image").unwrap();
    let all = Prune {
        older_than: Some(Duration::ZERO),
        ..Prune::default()
    };
    let user = fs::File::open(&image).unwrap();
    user.lock_shared().unwrap();
    let pruned = cache.prune(&all).unwrap();
    assert_eq!(pruned.removed, []);
    assert_eq!(pruned.kept_in_use[0].name, "initramfs.cpio");
    assert!(pruned.kept_in_use[0].in_use && image.exists());
    drop(user);
    assert_eq!(cache.prune(&all).unwrap().removed.len(), 1);
    assert!(!image.exists());
}

#[test]
fn half_made_entries_are_swept_and_those_in_the_making_stay() {
    let folder = tempfile::tempdir().unwrap();
    let cache = Cache::open(folder.path()).unwrap();
    let making = cache.temporary(Part::Kernels).unwrap();
    fs::write(making.path().join("data"), "x").unwrap();
    // As a kill leaves it: a lock file that nobody holds.
    let left = cache.part(Part::Kernels).join(".tmp-left");
    fs::create_dir(&left).unwrap();
    fs::write(left.join("lock"), "1").unwrap();
    // Just made, not yet locked: its maker has the part's lock.
    let fresh = cache.part(Part::Kernels).join(".tmp-fresh");
    fs::create_dir(&fresh).unwrap();
    let maker = fs::File::open(cache.part(Part::Kernels)).unwrap();
    maker.lock_shared().unwrap();
    assert_eq!(cache.sweep().unwrap(), 1);
    assert!(!left.exists() && fresh.exists() && making.path().join("data").exists());
    assert_eq!(names(&cache), Vec::<String>::new());
    // Killed before it locked the folder.
    drop(maker);
    assert_eq!(cache.sweep().unwrap(), 1);
    assert!(!fresh.exists() && making.path().join("data").exists());
    let path = making.path().to_owned();
    drop(making);
    assert!(!path.exists());
}

#[test]
fn the_second_of_two_publishers_takes_what_the_first_made() {
    let folder = tempfile::tempdir().unwrap();
    let cache = Cache::open(folder.path()).unwrap();
    let (one, two) = (
        cache.temporary(Part::Images).unwrap(),
        cache.temporary(Part::Images).unwrap(),
    );
    fs::write(one.path().join("data"), "one").unwrap();
    fs::write(two.path().join("data"), "two").unwrap();
    let first = one.publish("same").unwrap();
    let second = two.publish("same").unwrap();
    assert_eq!(first.entry(), second.entry());
    assert_eq!(
        fs::read_to_string(second.entry().join("data")).unwrap(),
        "one"
    );
    assert_eq!(cache.sweep().unwrap(), 0);
    assert_eq!(names(&cache), ["images/same"]);
}

#[test]
fn a_lock_is_exclusive_and_its_waiting_ends() {
    let folder = tempfile::tempdir().unwrap();
    let cache = Cache::open(folder.path()).unwrap();
    let lock = cache.lock(Part::Trees, "one", &at_once()).unwrap();
    let error = cache.lock(Part::Trees, "one", &at_once()).unwrap_err();
    assert!(matches!(error, CacheError::Busy { .. }), "{error:?}");
    assert!(
        error
            .to_string()
            .contains(&format!("process {}", std::process::id())),
        "{error}"
    );
    let cancelled = AtomicBool::new(true);
    let wait = Wait {
        deadline: Duration::from_secs(60),
        cancel: &cancelled,
        on_wait: &|_| {},
    };
    let error = cache.lock(Part::Trees, "one", &wait).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Interrupted);
    drop(lock);
    cache.lock(Part::Trees, "one", &at_once()).unwrap();
}

#[test]
fn places_that_cannot_be_a_cache_are_told_apart() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    let error = Cache::open(file.join("cache")).unwrap_err();
    assert!(matches!(error, CacheError::NoFolder { .. }), "{error:?}");
    let error = Cache::open(&file).unwrap_err();
    assert!(matches!(error, CacheError::NoFolder { .. }), "{error:?}");
    for (name, what) in [("a b", "space"), ("a:b", "colon")] {
        let error = Cache::open(folder.path().join(name)).unwrap_err();
        assert!(error.to_string().contains(what), "{error}");
        assert!(error.to_string().contains("NUMALAB_CACHE"), "{error}");
    }
}

/// A small file system of its own; `None`, with the reason printed, where that is not
/// allowed.
struct Mount<'a>(&'a Path);

impl<'a> Mount<'a> {
    fn new(path: &'a Path, options: &str) -> Option<Self> {
        fs::create_dir_all(path).unwrap();
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", options, "none"])
            .arg(path)
            .output();
        match mounted {
            Ok(output) if output.status.success() => Some(Self(path)),
            other => {
                eprintln!("not tried: mounting a tmpfs needs root here: {other:?}");
                None
            }
        }
    }
}

impl Drop for Mount<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0).status();
    }
}

#[test]
fn a_cache_that_cannot_be_written_to_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("mount");
    let Some(_mount) = Mount::new(&place, "ro") else {
        return;
    };
    let error = Cache::open(&place).unwrap_err();
    assert!(matches!(error, CacheError::NotWritable { .. }), "{error:?}");
    assert!(error.to_string().contains("not writable"), "{error}");
    assert_eq!(KernelError::from(error).kind(), ErrorKind::Environment);
}

#[test]
fn a_full_disk_is_told_at_each_stage_and_harms_nothing() {
    let bench = Bench::new();
    let place = bench.path().join("cache");
    let Some(_mount) = Mount::new(&place, "size=1200k") else {
        return;
    };
    let wanted = bench.wanted("small");
    let cache = bench.cache();
    let filler = place.join("filler");
    // From too little for the source to too little for the last file.
    let mut failures = 0;
    for left in [16, 40, 80, 120, 160, 200, 240, 280, 320_u64] {
        let free = rustix::fs::statvfs(&place).unwrap();
        let free = free.f_bavail * free.f_frsize / 1024;
        fs::write(
            &filler,
            vec![0; usize::try_from(free.saturating_sub(left) * 1024).unwrap()],
        )
        .unwrap();
        match bench.get_or_build(&wanted) {
            Ok(_) => {}
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Environment, "{left} KiB: {error}");
                assert!(
                    error.to_string().contains("disk is full"),
                    "{left} KiB: {error}"
                );
                failures += 1;
            }
        }
        fs::remove_file(&filler).unwrap();
    }
    assert!(failures >= 3, "{failures}");
    let kernel = bench.get_or_build(&wanted).unwrap();
    let clean = Bench::new();
    let expected = clean.get_or_build(&clean.wanted("small")).unwrap();
    assert_eq!(kernel.image_digest, expected.image_digest);
    assert_eq!(cache.sweep().unwrap(), 0);
}

#[test]
fn a_relative_home_makes_no_cache_below_the_current_folder() {
    let bench = Bench::new();
    let output = Command::new(crate::bench::driver())
        .arg(bench.catalog())
        .arg("small")
        .env_remove("NUMALAB_CACHE")
        .env_remove("XDG_CACHE_HOME")
        .env("HOME", "relative")
        .current_dir(bench.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success());
    assert!(said.contains("is a relative path: set HOME"), "{said}");
    assert!(!bench.path().join("relative").exists());
}
