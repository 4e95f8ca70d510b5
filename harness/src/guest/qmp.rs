//! QEMU's monitor: commands and events, over the `qapi` crate, without its traps.
//!
//! Callers are protected from two properties of the crate. A command whose future is dropped
//! breaks the next one, so one task owns the service and awaits each command to its end; a
//! caller's timeout ends only the caller's wait, and QEMU then counts as stuck. An event that
//! the crate does not know ends its stream, so a filter takes all events out first and passes
//! them on unchanged.

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::StreamExt;
use qapi::futures::{QapiService, QmpStreamTokio};
use qapi::qmp::QmpCommand;
use qapi::{Command, ExecuteError};
use serde_json::Value;
use tokio::io::{
    AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader, DuplexStream,
    WriteHalf,
};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// The most bytes of a line from QEMU. Its longest answers, such as the whole schema, have
/// about 300 KiB.
pub const LINE_LIMIT: u64 = 1024 * 1024;

/// Events that may wait for their reader; QEMU waits when there are more.
const EVENTS: usize = 1024;

type Service = QapiService<QmpStreamTokio<WriteHalf<DuplexStream>>>;
type Answering<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;
type Request = Box<dyn for<'a> FnOnce(&'a Service) -> Answering<'a> + Send>;

/// Sends commands. Dropping it closes the connection.
#[derive(Debug)]
pub struct Qmp {
    requests: mpsc::Sender<Request>,
    stuck: AtomicBool,
    task: JoinHandle<()>,
}

/// What QEMU sends by itself.
#[derive(Debug)]
pub enum Message {
    /// The greeting has been exchanged: commands are taken from now on.
    Ready,
    /// Something happened.
    Event(QmpEvent),
    /// The connection is closed; nothing follows.
    Closed(Closed),
}

/// An event as QEMU sent it, known to the crate or not.
#[derive(Debug, Clone, PartialEq)]
pub struct QmpEvent {
    /// Its name, such as `SHUTDOWN`.
    pub name: String,
    /// Its data; null if it has none.
    pub data: Value,
}

/// Why the connection ended.
#[derive(Debug, thiserror::Error)]
pub enum Closed {
    /// QEMU closed it, as it does when it ends.
    #[error("QEMU closed its monitor")]
    End,
    /// It never sent its greeting.
    #[error("QEMU did not answer on its monitor within {} seconds", .0.as_secs())]
    Silent(Duration),
    /// Reading or writing failed.
    #[error("the connection to QEMU's monitor broke")]
    Broken(#[source] io::Error),
    /// What came is not JSON.
    #[error("QEMU's monitor said {line:?}, which is not JSON")]
    Garbage {
        /// The line, shortened.
        line: String,
    },
    /// More than [`LINE_LIMIT`].
    #[error("QEMU's monitor sent a line of more than {LINE_LIMIT} bytes")]
    Oversized,
}

/// Why a command has no answer.
#[derive(Debug, thiserror::Error)]
pub enum QmpError {
    /// QEMU answered with an error.
    #[error("QEMU refused {command}")]
    Refused {
        /// The command.
        command: &'static str,
        /// Its answer.
        #[source]
        source: ExecuteError,
    },
    /// No answer within the caller's patience.
    #[error("QEMU did not answer {command} within {} ms", waited.as_millis())]
    Timeout {
        /// The command.
        command: &'static str,
        /// The patience.
        waited: Duration,
    },
    /// An earlier command has had no answer, and so this one was not given.
    #[error("{command} was not given, because QEMU has not answered an earlier command")]
    Stuck {
        /// The command.
        command: &'static str,
    },
    /// The connection ended before the answer.
    #[error("QEMU's monitor closed before it answered {command}")]
    Closed {
        /// The command.
        command: &'static str,
    },
}

/// Takes a connection to QEMU's monitor. All that QEMU sends by itself arrives on the
/// channel, in order, and ends with [`Message::Closed`].
pub fn connect<S>(stream: S) -> (Qmp, mpsc::Receiver<Message>)
where
    S: AsyncRead + AsyncWrite + Send + 'static,
{
    let (requests, inbox) = mpsc::channel(16);
    let (messages, outbox) = mpsc::channel(EVENTS);
    let task = tokio::spawn(async move {
        let closed = serve(stream, inbox, &messages).await;
        // Nobody reads any more if this fails.
        messages.send(Message::Closed(closed)).await.ok();
    });
    let qmp = Qmp {
        requests,
        stuck: AtomicBool::new(false),
        task,
    };
    (qmp, outbox)
}

impl Qmp {
    /// Gives a command and waits for its answer, at most for `patience`.
    pub async fn execute<C>(&self, command: C, patience: Duration) -> Result<C::Ok, QmpError>
    where
        C: QmpCommand + Send + Sync + 'static,
        C::Ok: Send + 'static,
    {
        let name = <C as Command>::NAME;
        if self.stuck.load(Ordering::Relaxed) {
            return Err(QmpError::Stuck { command: name });
        }
        let (reply, answer) = oneshot::channel();
        let request: Request = Box::new(move |service| {
            Box::pin(async move {
                let answer = service.execute(command).await;
                // The caller may not wait any longer.
                reply.send(answer).ok();
            })
        });
        let answered = async {
            let closed = || QmpError::Closed { command: name };
            self.requests.send(request).await.map_err(|_| closed())?;
            match answer.await {
                Ok(Ok(answer)) => Ok(answer),
                // The crate reports a lost connection as an I/O error.
                Ok(Err(ExecuteError::Io(e))) if e.kind() == io::ErrorKind::UnexpectedEof => {
                    Err(closed())
                }
                Ok(Err(source)) => Err(QmpError::Refused {
                    command: name,
                    source,
                }),
                Err(_) => Err(closed()),
            }
        };
        match timeout(patience, answered).await {
            Ok(answer) => answer,
            Err(_) => {
                self.stuck.store(true, Ordering::Relaxed);
                Err(QmpError::Timeout {
                    command: name,
                    waited: patience,
                })
            }
        }
    }
}

impl Drop for Qmp {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Everything of one connection, in one task: the filter, the way back, the crate.
async fn serve<S>(
    stream: S,
    inbox: mpsc::Receiver<Request>,
    messages: &mpsc::Sender<Message>,
) -> Closed
where
    S: AsyncRead + AsyncWrite + Send + 'static,
{
    let (from_qemu, mut to_qemu) = tokio::io::split(stream);
    let (inner, outer) = tokio::io::duplex(64 * 1024);
    let (mut from_crate, to_crate) = tokio::io::split(outer);
    let back = async {
        match tokio::io::copy(&mut from_crate, &mut to_qemu).await {
            Ok(_) => Closed::End,
            Err(error) => broken(error),
        }
    };
    // The filter comes first, so that QEMU's last events precede the end.
    tokio::select! {
        biased;
        closed = filter(from_qemu, to_crate, messages) => closed,
        closed = speak(inner, inbox, messages) => closed,
        closed = back => closed,
    }
}

/// Sends events to `messages` and everything else to the crate.
async fn filter(
    from_qemu: impl AsyncRead + Unpin,
    mut to_crate: impl AsyncWrite + Unpin,
    messages: &mpsc::Sender<Message>,
) -> Closed {
    let mut reader = BufReader::new(from_qemu);
    let mut line = Vec::new();
    loop {
        line.clear();
        let mut limited = (&mut reader).take(LINE_LIMIT);
        match limited.read_until(b'\n', &mut line).await {
            Err(error) => return broken(error),
            // A line that is cut off by the end cannot be trusted.
            Ok(length) if line.last() != Some(&b'\n') => {
                return if length as u64 == LINE_LIMIT {
                    Closed::Oversized
                } else {
                    Closed::End
                };
            }
            Ok(_) => {}
        }
        let Ok(Value::Object(mut value)) = serde_json::from_slice(&line) else {
            let line = String::from_utf8_lossy(&line);
            let line = line.trim_end().chars().take(80).collect();
            return Closed::Garbage { line };
        };
        if let Some(Value::String(name)) = value.get_mut("event").map(Value::take) {
            let data = value.remove("data").unwrap_or_default();
            let event = Message::Event(QmpEvent { name, data });
            if messages.send(event).await.is_err() {
                return Closed::End;
            }
        } else if let Err(error) = to_crate.write_all(&line).await {
            return broken(error);
        }
    }
}

/// Lets the crate speak: the greeting, then one command after the other.
async fn speak(
    stream: DuplexStream,
    mut inbox: mpsc::Receiver<Request>,
    messages: &mpsc::Sender<Message>,
) -> Closed {
    let negotiated = async { QmpStreamTokio::open(stream).await?.negotiate().await };
    let (service, mut events) = match negotiated.await {
        Ok(stream) => stream.into_parts(),
        Err(error) => return broken(error),
    };
    if messages.send(Message::Ready).await.is_err() {
        return Closed::End;
    }
    // Polling its events is what makes the crate read answers.
    let read = async {
        match events.next().await {
            None | Some(Ok(_)) => Closed::End,
            Some(Err(error)) => broken(error),
        }
    };
    let work = async {
        while let Some(request) = inbox.recv().await {
            request(&service).await;
        }
        Closed::End
    };
    tokio::select! {
        closed = read => closed,
        closed = work => closed,
    }
}

/// A reset is how a killed QEMU closes its socket.
fn broken(error: io::Error) -> Closed {
    match error.kind() {
        io::ErrorKind::ConnectionReset
        | io::ErrorKind::BrokenPipe
        | io::ErrorKind::UnexpectedEof => Closed::End,
        _ => Closed::Broken(error),
    }
}

#[cfg(test)]
mod tests;
