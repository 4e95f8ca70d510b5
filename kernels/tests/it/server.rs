//! A small HTTP server that does what a test tells it to, one request after the other.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// What it does with one request.
#[derive(Debug, Clone)]
pub(crate) enum Act {
    /// Gives what is asked for.
    Serve,
    /// Gives all of it, whatever part is asked for.
    Whole,
    /// Gives so many bytes of what is asked for, and cuts the connection.
    Cut(usize),
    /// Gives so many bytes of what is asked for, and then says nothing any more.
    Stall(usize),
    /// Gives it without saying how much it is.
    Lengthless,
    /// Gives it, eight bytes at a time, so slowly that it never ends.
    Drip,
    /// Gives other bytes.
    Other(Vec<u8>),
    /// Answers with this status and a page.
    Status(u16),
}

pub(crate) struct Server {
    address: String,
    requests: Arc<Mutex<Vec<Option<u64>>>>,
}

impl Server {
    /// Serves `body`; `acts` in order, and then the last one for ever.
    pub(crate) fn start(body: Vec<u8>, acts: &[Act]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let (seen, acts) = (Arc::clone(&requests), acts.to_vec());
        // It ends with the test's process.
        thread::spawn(move || {
            for stream in listener.incoming() {
                let stream = stream.unwrap();
                let from = range(&stream);
                let mut seen = seen.lock().unwrap();
                let act = acts[seen.len().min(acts.len() - 1)].clone();
                seen.push(from);
                let body = body.clone();
                thread::spawn(move || answer(stream, &body, from, &act));
            }
        });
        Self { address, requests }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/pub/linux-small.tar.gz", self.address)
    }

    /// The first byte that each request asked for; `None` for all.
    pub(crate) fn requests(&self) -> Vec<Option<u64>> {
        self.requests.lock().unwrap().clone()
    }
}

fn range(stream: &TcpStream) -> Option<u64> {
    let mut from = None;
    for line in BufReader::new(stream).lines() {
        let line = line.unwrap_or_default().to_ascii_lowercase();
        if let Some(rest) = line.strip_prefix("range: bytes=") {
            from = rest.trim_end_matches('-').parse().ok();
        }
        if line.is_empty() {
            break;
        }
    }
    from
}

fn answer(mut stream: TcpStream, body: &[u8], from: Option<u64>, act: &Act) {
    let length = body.len();
    let from = match act {
        Act::Whole | Act::Lengthless | Act::Other(_) => 0,
        _ => usize::try_from(from.unwrap_or(0)).unwrap(),
    };
    let head = match act {
        Act::Status(status) => format!("{status} X\r\nContent-Length: 5"),
        Act::Lengthless => "200 OK".to_owned(),
        Act::Other(other) => format!("200 OK\r\nContent-Length: {}", other.len()),
        _ if from >= length && from > 0 => {
            format!("416 X\r\nContent-Range: bytes */{length}\r\nContent-Length: 0")
        }
        _ if from > 0 => format!(
            "206 Partial Content\r\nContent-Range: bytes {from}-{}/{length}\r\nContent-Length: {}",
            length - 1,
            length - from
        ),
        _ => format!("200 OK\r\nContent-Length: {length}"),
    };
    // A client may go away in the middle.
    let _ = write!(stream, "HTTP/1.1 {head}\r\nConnection: close\r\n\r\n");
    let rest = &body[from.min(length)..];
    let _ = match act {
        Act::Status(_) => stream.write_all(b"sorry"),
        Act::Other(other) => stream.write_all(other),
        Act::Cut(count) => stream.write_all(&rest[..*count]),
        Act::Stall(count) => {
            let _ = stream.write_all(&rest[..*count]);
            thread::sleep(Duration::from_secs(60));
            Ok(())
        }
        Act::Drip => rest.chunks(8).try_for_each(|piece| {
            thread::sleep(Duration::from_millis(50));
            stream.write_all(piece)
        }),
        Act::Serve | Act::Whole | Act::Lengthless => stream.write_all(rest),
    };
}
