//! Signals: the first one asks for an orderly end, the second ends at once.

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// 128 and SIGINT's number, as a shell tells that a signal ended a process.
pub const INTERRUPTED: u8 = 130;

/// A token that SIGINT, SIGTERM or SIGHUP cancels. A second signal ends the process at once;
/// guests and builds die with it by their parent-death signal. Must be called within a
/// runtime.
pub fn cancel_on_signals() -> CancellationToken {
    let cancel = CancellationToken::new();
    let kinds = [
        SignalKind::interrupt(),
        SignalKind::terminate(),
        SignalKind::hangup(),
    ];
    // A signal that cannot be watched keeps its default, which ends the process.
    for mut stream in kinds.into_iter().filter_map(|kind| signal(kind).ok()) {
        let cancel = cancel.clone();
        tokio::spawn(async move { watch(&mut stream, &cancel).await });
    }
    cancel
}

async fn watch(stream: &mut Signal, cancel: &CancellationToken) {
    while stream.recv().await.is_some() {
        if cancel.is_cancelled() {
            std::process::exit(i32::from(INTERRUPTED));
        }
        cancel.cancel();
    }
}
