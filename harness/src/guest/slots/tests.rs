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

struct Hall {
    _folder: tempfile::TempDir,
    slots: Slots,
}

fn hall(cores: usize) -> Hall {
    let folder = tempfile::tempdir().unwrap();
    let slots = Slots {
        folder: folder.path().join("slots"),
        cores,
    };
    Hall {
        _folder: folder,
        slots,
    }
}

async fn take(slots: &Slots, need: Need) -> Slot {
    let cancel = CancellationToken::new();
    slots.take(need, |_| {}, &cancel).await.unwrap().unwrap()
}

/// Whether there is no slot at once, and what is waited for.
async fn waits(slots: &Slots, need: Need) -> Option<Waiting> {
    let (cancel, mut told) = (CancellationToken::new(), None);
    let soon = async {
        tokio::time::sleep(POLL * 12).await;
        cancel.cancel();
    };
    let on_wait = |waiting: &Waiting| told = Some(waiting.clone());
    let (taken, ()) = tokio::join!(slots.take(need, on_wait, &cancel), soon);
    assert_eq!(taken.unwrap().is_none(), told.is_some());
    told
}

#[tokio::test]
async fn no_more_guests_than_cores() {
    let hall = hall(2);
    let first = take(&hall.slots, SMALL).await;
    let _second = take(&hall.slots, SMALL).await;
    assert_eq!(waits(&hall.slots, SMALL).await, Some(Waiting::Core(2)));
    drop(first);
    assert_eq!(waits(&hall.slots, SMALL).await, None);
}

#[tokio::test]
async fn a_live_guest_has_the_host_for_itself() {
    let hall = hall(4);
    let small = take(&hall.slots, SMALL).await;
    assert_eq!(waits(&hall.slots, ALONE).await, Some(Waiting::Core(1)));
    drop(small);
    let alone = take(&hall.slots, ALONE).await;
    assert_eq!(waits(&hall.slots, SMALL).await, Some(Waiting::Core(1)));
    drop(alone);
    assert_eq!(waits(&hall.slots, SMALL).await, None);
}

#[tokio::test]
async fn who_came_first_is_served_first() {
    let hall = hall(1);
    let running = take(&hall.slots, SMALL).await;
    // One that needs the whole host is not passed by those that fit.
    let order = std::sync::Mutex::new(Vec::new());
    let served = async |name: &'static str, need: Need, after: u32| {
        tokio::time::sleep(POLL * after).await;
        let slot = take(&hall.slots, need).await;
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
async fn a_dead_one_s_seat_is_free() {
    let hall = hall(1);
    let slot = take(&hall.slots, SMALL).await;
    // As a kill leaves it: the file stays, the lock goes.
    let path = std::fs::read_dir(&hall.slots.folder)
        .unwrap()
        .map(|item| item.unwrap().path())
        .find(|path| !path.ends_with("queue_lock"))
        .unwrap();
    let text = std::fs::read(&path).unwrap();
    drop(slot);
    std::fs::write(&path, text).unwrap();
    assert_eq!(waits(&hall.slots, SMALL).await, None);
    assert!(!path.exists(), "it is swept");
}

#[tokio::test]
async fn memory_that_was_promised_is_not_promised_again() {
    let hall = hall(8);
    // Most of what there is: a second guest of that size cannot be promised the same.
    let most = (0..60)
        .map(|step| (f64::from(1 << 24) * 0.75_f64.powi(step)) as u64)
        .find(|mib| crate::guest::host::check_memory(mib + 64).is_ok());
    let half = Need {
        memory_mib: most.expect("this host has some memory"),
        alone: false,
    };
    let _first = take(&hall.slots, half).await;
    let Some(Waiting::Memory(error)) = waits(&hall.slots, half).await else {
        panic!("both were promised it");
    };
    assert!(matches!(error, MemoryError::Now { .. }), "{error}");
    // A small one waits for nobody once the big one has gone.
    assert_eq!(waits(&hall.slots, SMALL).await, None);
    let never = Need {
        memory_mib: u64::MAX / 2,
        alone: false,
    };
    let cancel = CancellationToken::new();
    let refused = hall.slots.take(never, |_| {}, &cancel).await.unwrap_err();
    assert!(matches!(refused, MemoryError::Never { .. }), "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crowd_never_sits_on_one_chair() {
    let hall = hall(3);
    let (now, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let guests = (0..20).map(|_| async {
        let slot = take(&hall.slots, SMALL).await;
        most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        tokio::time::sleep(POLL / 2).await;
        now.fetch_sub(1, Ordering::SeqCst);
        drop(slot);
    });
    futures::future::join_all(guests).await;
    assert_eq!(most.load(Ordering::SeqCst), 3);
    let left = std::fs::read_dir(&hall.slots.folder).unwrap().count();
    assert_eq!(left, 1, "only the queue_lock is left");
}
