use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

const SMALL: Need = Need {
    memory_mib: 1,
    alone: false,
};

const ALONE: Need = Need {
    memory_mib: 1,
    alone: true,
};

struct Bench {
    _folder: tempfile::TempDir,
    slots: Slots,
}

fn bench(cores: usize) -> Bench {
    let folder = tempfile::tempdir().unwrap();
    let slots = Slots {
        folder: folder.path().join("slots"),
        cores,
        root: "/".into(),
        memory_patience: MEMORY_PATIENCE,
    };
    Bench {
        _folder: folder,
        slots,
    }
}

async fn take(slots: &Slots, need: Need) -> Slot {
    let cancel = CancellationToken::new();
    slots.acquire(need, |_| {}, &cancel).await.unwrap()
}

/// Whether there is no slot at once, and what is waited for.
async fn waits(slots: &Slots, need: Need) -> Option<Waiting> {
    let (cancel, mut told) = (CancellationToken::new(), None);
    let soon = async {
        tokio::time::sleep(POLL * 12).await;
        cancel.cancel();
    };
    let on_wait = |waiting: &Waiting| told = Some(waiting.clone());
    let (taken, ()) = tokio::join!(slots.acquire(need, on_wait, &cancel), soon);
    assert_eq!(taken.is_err(), told.is_some());
    told
}

#[tokio::test]
async fn no_more_guests_than_cores() {
    let bench = bench(2);
    let first = take(&bench.slots, SMALL).await;
    let _second = take(&bench.slots, SMALL).await;
    assert_eq!(waits(&bench.slots, SMALL).await, Some(Waiting::Core(2)));
    drop(first);
    assert_eq!(waits(&bench.slots, SMALL).await, None);
}

#[tokio::test]
async fn a_live_guest_has_the_host_for_itself() {
    let bench = bench(4);
    let small = take(&bench.slots, SMALL).await;
    assert_eq!(waits(&bench.slots, ALONE).await, Some(Waiting::Core(1)));
    drop(small);
    let alone = take(&bench.slots, ALONE).await;
    assert_eq!(waits(&bench.slots, SMALL).await, Some(Waiting::Core(1)));
    drop(alone);
    assert_eq!(waits(&bench.slots, SMALL).await, None);
}

#[tokio::test]
async fn who_came_first_is_served_first() {
    let bench = bench(1);
    let running = take(&bench.slots, SMALL).await;
    // One that needs the whole host is not passed by those that fit.
    let order = std::sync::Mutex::new(Vec::new());
    let served = async |name: &'static str, need: Need, after: u32| {
        tokio::time::sleep(POLL * after).await;
        let slot = take(&bench.slots, need).await;
        order.lock().unwrap().push(name);
        tokio::time::sleep(POLL).await;
        drop(slot);
    };
    let freed = async {
        tokio::time::sleep(POLL * 20).await;
        drop(running);
    };
    tokio::join!(
        served("second", ALONE, 4),
        served("first", SMALL, 0),
        served("third", SMALL, 8),
        freed
    );
    assert_eq!(*order.lock().unwrap(), ["first", "second", "third"]);
}

#[tokio::test]
async fn the_slot_of_a_process_that_is_gone_is_free() {
    let bench = bench(1);
    let slot = take(&bench.slots, SMALL).await;
    // As a kill leaves it: the file stays, the lock goes.
    let path = std::fs::read_dir(&bench.slots.folder)
        .unwrap()
        .map(|item| item.unwrap().path())
        .find(|path| !path.ends_with("queue_lock"))
        .unwrap();
    let text = std::fs::read(&path).unwrap();
    drop(slot);
    std::fs::write(&path, text).unwrap();
    assert_eq!(waits(&bench.slots, SMALL).await, None);
    assert!(!path.exists(), "it is swept");
}

#[tokio::test]
async fn memory_is_reserved_only_once() {
    let bench = bench(8);
    // Most of what there is: a second guest of that size does not fit.
    let most = (0..60)
        .map(|step| (f64::from(1 << 24) * 0.75_f64.powi(step)) as u64)
        .find(|mib| host::check_memory(mib + 64).is_ok());
    let half = Need {
        memory_mib: most.expect("this host has some memory"),
        alone: false,
    };
    let _first = take(&bench.slots, half).await;
    let Some(Waiting::Memory(error)) = waits(&bench.slots, half).await else {
        panic!("both have it");
    };
    assert!(matches!(error, MemoryError::Now { .. }), "{error}");
    // A small one waits for nobody once the big one has gone.
    assert_eq!(waits(&bench.slots, SMALL).await, None);
    let never = Need {
        memory_mib: u64::MAX / 2,
        alone: false,
    };
    let cancel = CancellationToken::new();
    let refused = bench.slots.acquire(never, |_| {}, &cancel).await;
    let refused = refused.unwrap_err();
    let is_never = matches!(refused, SlotError::Memory(MemoryError::Never { .. }));
    assert!(is_never, "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crowd_never_shares_a_slot() {
    let bench = bench(3);
    let (now, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let guests = (0..20).map(|_| async {
        let slot = take(&bench.slots, SMALL).await;
        most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        tokio::time::sleep(POLL / 2).await;
        now.fetch_sub(1, Ordering::SeqCst);
        drop(slot);
    });
    futures::future::join_all(guests).await;
    assert_eq!(most.load(Ordering::SeqCst), 3);
    let left = std::fs::read_dir(&bench.slots.folder).unwrap().count();
    assert_eq!(left, 1, "only the queue_lock is left");
}

/// A host of one process' own, with so much memory.
fn host(available_kib: u32) -> Bench {
    let mut bench = bench(1);
    bench.slots.root = bench._folder.path().join("root");
    std::fs::create_dir_all(bench.slots.root.join("proc")).unwrap();
    set_memory(&bench, available_kib);
    bench
}

fn set_memory(bench: &Bench, available_kib: u32) {
    // In one step, as the kernel shows it.
    let (new, path) = (
        bench.slots.root.join("new"),
        bench.slots.root.join("proc/meminfo"),
    );
    let text = format!("MemTotal: 4096000 kB\nMemAvailable: {available_kib} kB\n");
    std::fs::write(&new, text).unwrap();
    std::fs::rename(new, path).unwrap();
}

const LARGE: Need = Need {
    memory_mib: 2000,
    alone: false,
};

#[tokio::test]
async fn a_guest_waits_until_others_give_their_memory_back() {
    let mut bench = host(2_048_000);
    // With a queue, and where the cache's folder cannot be written to.
    for folder in [bench.slots.folder.clone(), "/proc/none".into()] {
        bench.slots.folder = folder;
        set_memory(&bench, 2_048_000);
        let (cancel, mut told) = (CancellationToken::new(), None);
        let freed = async {
            tokio::time::sleep(POLL * 12).await;
            set_memory(&bench, 3_072_000);
        };
        let on_wait = |waiting: &Waiting| told = Some(waiting.to_string());
        let waiting = bench.slots.acquire(LARGE, on_wait, &cancel);
        let (slot, ()) = tokio::join!(waiting, freed);
        slot.unwrap();
        let told = told.unwrap();
        assert!(told.contains("the host leaves 2000 MiB"), "{told}");
        assert_eq!(waits(&bench.slots, LARGE).await, None);
    }
}

#[tokio::test]
async fn what_never_fits_is_refused_at_once() {
    let bench = host(2_048_000);
    let never = Need {
        memory_mib: 4000,
        alone: false,
    };
    let cancel = CancellationToken::new();
    let refused = bench.slots.acquire(never, |_| panic!("it waits"), &cancel);
    let error = MemoryError::Never {
        needed_mib: 4256,
        total_mib: 4000,
        limit: "the host".into(),
    };
    assert_eq!(refused.await.unwrap_err(), SlotError::Memory(error));
}

#[tokio::test]
async fn waiting_for_memory_has_an_end() {
    let mut bench = host(2_048_000);
    bench.slots.memory_patience = POLL;
    let cancel = CancellationToken::new();
    let error = bench.slots.acquire(LARGE, |_| {}, &cancel).await;
    let error = error.unwrap_err().to_string();
    assert!(
        error.starts_with("the guest waited 0 seconds for memory of the host: it needs 2256"),
        "{error}"
    );
}
