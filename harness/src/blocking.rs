//! Blocking work, such as building a kernel, that a cancellation ends.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio_util::sync::CancellationToken;

/// Does blocking work on the current thread, with a flag that is set once `cancel` is
/// cancelled. The other tasks of a multi-threaded runtime go on meanwhile; those of a
/// current-thread runtime wait.
pub(crate) fn run<T>(cancel: &CancellationToken, work: impl FnOnce(&AtomicBool) -> T) -> T {
    let (flag, watched) = (AtomicBool::new(false), cancel.child_token());
    thread::scope(|scope| {
        // A thread and not a task: a current-thread runtime would not poll it.
        scope.spawn(|| {
            futures::executor::block_on(watched.cancelled());
            flag.store(cancel.is_cancelled(), Ordering::Relaxed);
        });
        // Ends that thread, also if the work panics.
        let _done = watched.clone().drop_guard();
        match Handle::try_current().map(|runtime| runtime.runtime_flavor()) {
            Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(|| work(&flag)),
            _ => work(&flag),
        }
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn waits_for_the_flag(cancel: &CancellationToken) {
        run(cancel, |flag| {
            cancel.cancel();
            while !flag.load(Ordering::Relaxed) {
                thread::sleep(Duration::from_millis(1));
            }
        });
    }

    #[tokio::test]
    async fn a_current_thread_runtime_can_be_cancelled() {
        assert_eq!(run(&CancellationToken::new(), |_| 7), 7);
        waits_for_the_flag(&CancellationToken::new());
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_multi_threaded_runtime_can_be_cancelled() {
        waits_for_the_flag(&CancellationToken::new());
    }

    #[test]
    fn no_runtime_is_needed() {
        waits_for_the_flag(&CancellationToken::new());
    }
}
