//! Downloads over HTTP: into a file, going on where one broke off, and with an end.
//!
//! What comes is not judged here: whoever asks for it has its digest.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::thread;
use std::time::{Duration, Instant};

use ureq::http::{HeaderMap, StatusCode, header};
use ureq::tls::{RootCerts, TlsConfig};

/// The most that is downloaded; kernels' tarballs have 300 MB.
const MOST: u64 = 4 << 30;

/// How often in a row a download may break off without a new byte.
const ATTEMPTS: u32 = 4;

/// How often it is looked whether the caller wishes to stop.
const LOOK: Duration = Duration::from_millis(100);

/// A download.
pub(super) struct Download<'a> {
    pub(super) url: &'a str,
    /// The file; what is in it counts as the beginning of what is to come.
    pub(super) into: &'a Path,
    /// How long a server may be silent.
    pub(super) stall: Duration,
    /// When all of it must have come.
    pub(super) end: Instant,
    pub(super) cancel: &'a AtomicBool,
}

/// Why a download did not end well.
#[derive(Debug, thiserror::Error)]
pub(super) enum DownloadError {
    /// The server will not give it, however often it is asked.
    #[error("{0}")]
    Refused(String),
    /// The connection failed again and again.
    #[error(
        "{why}, {ATTEMPTS} times in a row; {got} bytes of it are kept, and the next attempt goes on there"
    )]
    Broken { why: String, got: u64 },
    /// It took too long.
    #[error("it took too long; {got} bytes of it are kept, and the next attempt goes on there")]
    Late { got: u64 },
    /// The caller wished to stop.
    #[error("interrupted")]
    Interrupted,
    /// The file cannot be written.
    #[error("cannot write {path:?}")]
    Write {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
}

/// What the thread that talks to the server tells.
enum Told {
    Head(Head),
    Bytes(Vec<u8>),
    End,
    Failed(String),
}

/// A response's beginning.
struct Head {
    status: u16,
    /// Of this response, if it says so.
    length: Option<u64>,
    /// Of `Content-Range`: the first byte that comes (none with 416), and the whole size.
    range: (Option<u64>, Option<u64>),
}

/// How one request went.
enum Went {
    /// All has come.
    Whole,
    /// It broke off; why.
    Broken(String),
}

impl Download<'_> {
    /// Downloads until the file has what the server has. Tells the bytes that are there,
    /// and how many there will be; the answer says whether to go on.
    pub(super) fn run(
        &self,
        tell: &mut dyn FnMut(u64, Option<u64>) -> bool,
    ) -> Result<(), DownloadError> {
        let mut file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .read(true)
            .write(true)
            .open(self.into)
            .map_err(|source| self.write(source))?;
        let mut failures = 0;
        loop {
            let before = self.size(&mut file)?;
            let why = match self.request(&mut file, before, tell)? {
                Went::Whole => return Ok(()),
                Went::Broken(why) => why,
            };
            let got = self.size(&mut file)?;
            failures = if got > before { 1 } else { failures + 1 };
            if failures >= ATTEMPTS {
                return Err(DownloadError::Broken { why, got });
            }
            let pause = Instant::now() + Duration::from_millis(500) * failures;
            while Instant::now() < pause {
                self.go_on(got)?;
                thread::sleep(LOOK);
            }
        }
    }

    /// One request, for what is not there yet.
    fn request(
        &self,
        file: &mut File,
        got: u64,
        tell: &mut dyn FnMut(u64, Option<u64>) -> bool,
    ) -> Result<Went, DownloadError> {
        let told = self.ask(got);
        let head = match self.next(&told, got)? {
            Some(Told::Head(head)) => head,
            Some(Told::Failed(why)) => return Ok(Went::Broken(why)),
            _ => return Ok(Went::Broken("the connection was cut".to_owned())),
        };
        let (from, whole) = match (head.status, head.range) {
            (206, (Some(from), whole)) if from == got => (got, whole),
            // It gives all of it, whatever was asked for.
            (200, _) => (0, head.length),
            // There is nothing after what is here.
            (416, (_, whole)) if got > 0 => {
                if whole == Some(got) {
                    return Ok(Went::Whole);
                }
                self.cut(file, 0)?;
                return Ok(Went::Broken(
                    "the server has less than what is here".to_owned(),
                ));
            }
            (206, _) => {
                self.cut(file, 0)?;
                return Ok(Went::Broken(
                    "the server sent another part than asked for".to_owned(),
                ));
            }
            (status @ (408 | 425 | 429 | 500..=599), _) => {
                return Ok(Went::Broken(format!("the server said {}", named(status))));
            }
            (status, _) => {
                return Err(DownloadError::Refused(format!(
                    "the server said {}",
                    named(status)
                )));
            }
        };
        if whole.is_some_and(|whole| whole > MOST) {
            return Err(huge());
        }
        self.cut(file, from)?;
        let mut got = from;
        loop {
            if !tell(got, whole) {
                return Err(DownloadError::Interrupted);
            }
            match self.next(&told, got)? {
                Some(Told::Bytes(bytes)) => {
                    got += bytes.len() as u64;
                    if got > MOST {
                        return Err(huge());
                    }
                    file.write_all(&bytes)
                        .map_err(|source| self.write(source))?;
                }
                Some(Told::End) if whole.is_none_or(|whole| whole == got) => {
                    file.sync_all().map_err(|source| self.write(source))?;
                    return Ok(Went::Whole);
                }
                Some(Told::Failed(why)) => return Ok(Went::Broken(why)),
                _ => return Ok(Went::Broken("the connection was cut".to_owned())),
            }
        }
    }

    /// Starts a thread that asks the server for what comes after `got` bytes. It may wait
    /// in a system call for as long as a server may be silent, and nobody waits for it: it
    /// ends when what it tells is not wanted any more.
    fn ask(&self, got: u64) -> Receiver<Told> {
        let (sender, receiver) = mpsc::sync_channel(8);
        let url = self.url.to_owned();
        let (stall, left) = (
            self.stall,
            self.end.saturating_duration_since(Instant::now()),
        );
        thread::spawn(move || {
            if let Err(why) = talk(&url, got, stall, left, &sender) {
                // Nobody listens after an interruption.
                let _ = sender.send(Told::Failed(why));
            }
        });
        receiver
    }

    /// What the thread tells next; `None` if it has ended, or said nothing for too long.
    fn next(&self, told: &Receiver<Told>, got: u64) -> Result<Option<Told>, DownloadError> {
        let silent = Instant::now();
        loop {
            match told.recv_timeout(LOOK) {
                Ok(told) => {
                    self.go_on(got)?;
                    return Ok(Some(told));
                }
                Err(RecvTimeoutError::Disconnected) => return Ok(None),
                Err(RecvTimeoutError::Timeout) => {
                    self.go_on(got)?;
                    if silent.elapsed() >= self.stall {
                        return Ok(Some(Told::Failed(format!(
                            "the server was silent for {} s",
                            self.stall.as_secs()
                        ))));
                    }
                }
            }
        }
    }

    fn go_on(&self, got: u64) -> Result<(), DownloadError> {
        if self.cancel.load(Ordering::Relaxed) {
            return Err(DownloadError::Interrupted);
        }
        if Instant::now() >= self.end {
            return Err(DownloadError::Late { got });
        }
        Ok(())
    }

    fn size(&self, file: &mut File) -> Result<u64, DownloadError> {
        file.seek(SeekFrom::End(0))
            .map_err(|source| self.write(source))
    }

    /// Keeps so many bytes of the file, and goes on behind them.
    fn cut(&self, file: &mut File, length: u64) -> Result<(), DownloadError> {
        file.set_len(length)
            .and_then(|()| file.seek(SeekFrom::Start(length)))
            .map(drop)
            .map_err(|source| self.write(source))
    }

    fn write(&self, source: io::Error) -> DownloadError {
        DownloadError::Write {
            path: self.into.to_owned(),
            source,
        }
    }
}

fn huge() -> DownloadError {
    DownloadError::Refused("it is larger than 4 GiB, which no kernel's tarball is".to_owned())
}

fn named(status: u16) -> String {
    let reason = StatusCode::from_u16(status)
        .ok()
        .and_then(|status| status.canonical_reason());
    format!("{status} {}", reason.unwrap_or_default())
        .trim_end()
        .to_owned()
}

/// Talks to the server. Proxies are those of the environment, and the roots of TLS are the
/// system's.
fn talk(
    url: &str,
    got: u64,
    stall: Duration,
    left: Duration,
    told: &SyncSender<Told>,
) -> Result<(), String> {
    let agent = ureq::Agent::config_builder()
        .http_status_as_error(false)
        .user_agent(concat!("numalab/", env!("CARGO_PKG_VERSION")))
        .tls_config(
            TlsConfig::builder()
                .root_certs(RootCerts::PlatformVerifier)
                .build(),
        )
        .timeout_resolve(Some(stall))
        .timeout_connect(Some(stall))
        .timeout_recv_response(Some(stall))
        .timeout_per_read(Some(stall))
        .timeout_global(Some(left))
        .build()
        .new_agent();
    let mut request = agent.get(url);
    if got > 0 {
        request = request.header(header::RANGE, format!("bytes={got}-"));
    }
    let response = request.call().map_err(|error| error.to_string())?;
    let head = Head {
        status: response.status().as_u16(),
        length: number(response.headers(), header::CONTENT_LENGTH.as_str()),
        range: response
            .headers()
            .get(header::CONTENT_RANGE)
            .and_then(|value| value.to_str().ok())
            .map_or((None, None), content_range),
    };
    if told.send(Told::Head(head)).is_err() {
        return Ok(());
    }
    let mut body = response.into_body();
    let mut body = body.with_config().limit(u64::MAX).reader();
    let mut piece = vec![0; 128 * 1024];
    loop {
        match body.read(&mut piece).map_err(|error| error.to_string())? {
            0 => {
                let _ = told.send(Told::End);
                return Ok(());
            }
            length => {
                if told.send(Told::Bytes(piece[..length].to_vec())).is_err() {
                    return Ok(());
                }
            }
        }
    }
}

fn number(headers: &HeaderMap, name: &str) -> Option<u64> {
    headers.get(name)?.to_str().ok()?.trim().parse().ok()
}

/// `bytes 5-9/10`, `bytes 5-9/*`, `bytes */10` (RFC 9110, 14.4).
fn content_range(value: &str) -> (Option<u64>, Option<u64>) {
    let Some((range, whole)) = value
        .trim()
        .strip_prefix("bytes ")
        .and_then(|rest| rest.split_once('/'))
    else {
        return (None, None);
    };
    let first = range
        .split_once('-')
        .and_then(|(first, _)| first.trim().parse().ok());
    (first, whole.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_read() {
        assert_eq!(content_range("bytes 5-9/10"), (Some(5), Some(10)));
        assert_eq!(content_range("bytes 5-9/*"), (Some(5), None));
        assert_eq!(content_range("bytes */10"), (None, Some(10)));
        assert_eq!(content_range("pages 1-2/3"), (None, None));
        assert_eq!(content_range("bytes x"), (None, None));
    }
}
