//! Tarballs that are fetched, from a server that misbehaves.

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use numalab_kernels::cache::Part;
use numalab_kernels::{Digest, ErrorKind, Kernel, KernelError, get_or_build};

use crate::bench::{Bench, Listener};
use crate::server::{Act, Server};
use crate::tarballs::{self, Packed};

struct Stand {
    bench: Bench,
    server: Server,
    bytes: Vec<u8>,
}

impl Stand {
    fn new(acts: &[Act]) -> Self {
        let mut bench = tarballs::bench();
        bench.options.stall_deadline = Duration::from_millis(700);
        bench.options.fetch_deadline = Duration::from_secs(30);
        let packed = tarballs::pack(&bench, &Packed::default());
        let bytes = fs::read(packed).unwrap();
        let server = Server::start(bytes.clone(), acts);
        Self {
            bench,
            server,
            bytes,
        }
    }

    fn word(&self) -> String {
        format!("{}#sha256={}", self.server.url(), Digest::of(&self.bytes))
    }

    fn get_or_build(&self) -> Result<Kernel, KernelError> {
        self.bench.get_or_build(&self.bench.wanted(&self.word()))
    }

    fn ensure_told(&self) -> (Result<Kernel, KernelError>, String) {
        let listener = Listener::default();
        let wanted = self.bench.wanted(&self.word());
        let kernel = self.bench.ensure_told(&wanted, &listener);
        (kernel, listener.text())
    }

    fn partial(&self) -> PathBuf {
        let name = format!("download-{}", Digest::of(&self.bytes).short());
        self.bench.cache().entry(Part::Tools, &name).join("partial")
    }

    /// What is in the cache of fetched sources.
    fn fetched(&self) -> usize {
        fs::read_dir(self.bench.cache().part(Part::Sources))
            .unwrap()
            .count()
    }
}

#[test]
fn it_is_fetched_once_and_a_kernel_that_is_built_needs_no_server() {
    let stand = Stand::new(&[Act::Serve, Act::Status(500)]);
    let kernel = stand.get_or_build().unwrap();
    let built = kernel.manifest.built.as_ref().unwrap();
    assert_eq!(built.source.digest, Digest::of(&stand.bytes));
    assert!(built.source.version.starts_with("6."), "{built:?}");
    assert_eq!(stand.get_or_build().unwrap().key, kernel.key);
    assert_eq!(stand.server.requests(), [None]);
    assert!(!stand.partial().exists());
    // The same bytes from a file are the same kernel.
    let file = tarballs::pack(&stand.bench, &Packed::default());
    let word = file.to_str().unwrap();
    assert_eq!(
        stand
            .bench
            .get_or_build(&stand.bench.wanted(word))
            .unwrap()
            .key,
        kernel.key
    );
}

#[test]
fn a_download_that_breaks_off_goes_on_where_it_was() {
    let stand = Stand::new(&[Act::Cut(100), Act::Cut(50), Act::Status(503), Act::Serve]);
    stand.get_or_build().unwrap();
    assert_eq!(
        stand.server.requests(),
        [None, Some(100), Some(150), Some(150)]
    );
}

#[test]
fn what_is_left_by_another_run_is_gone_on_with() {
    let stand = Stand::new(&[Act::Serve]);
    let partial = stand.partial();
    fs::create_dir_all(partial.parent().unwrap()).unwrap();
    fs::write(&partial, &stand.bytes[..321]).unwrap();
    let (kernel, told) = stand.ensure_told();
    kernel.unwrap();
    assert!(told.contains("going on after 321 bytes"), "{told}");
    assert_eq!(stand.server.requests(), [Some(321)]);
}

#[test]
fn a_server_that_gives_all_of_it_again_is_understood() {
    let stand = Stand::new(&[Act::Cut(100), Act::Whole]);
    stand.get_or_build().unwrap();
    let stand = Stand::new(&[Act::Cut(100), Act::Lengthless]);
    stand.get_or_build().unwrap();
}

#[test]
fn a_beginning_of_another_file_is_thrown_away() {
    let stand = Stand::new(&[Act::Serve]);
    let partial = stand.partial();
    fs::create_dir_all(partial.parent().unwrap()).unwrap();
    fs::write(&partial, b"something else").unwrap();
    stand.get_or_build().unwrap();
    assert_eq!(stand.server.requests(), [Some(14), None]);
    // Longer than what there is.
    let stand = Stand::new(&[Act::Serve]);
    let partial = stand.partial();
    fs::create_dir_all(partial.parent().unwrap()).unwrap();
    fs::write(&partial, vec![b'x'; stand.bytes.len() + 1]).unwrap();
    stand.get_or_build().unwrap();
    // Whole, and never verified.
    let stand = Stand::new(&[Act::Serve]);
    let partial = stand.partial();
    fs::create_dir_all(partial.parent().unwrap()).unwrap();
    fs::write(&partial, &stand.bytes).unwrap();
    stand.get_or_build().unwrap();
}

#[test]
fn other_bytes_are_never_used_and_both_digests_are_told() {
    let mut other = Stand::new(&[Act::Serve]).bytes;
    *other.last_mut().unwrap() ^= 1;
    let stand = Stand::new(&[Act::Other(other.clone())]);
    let error = stand.get_or_build().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Input);
    let text = error.to_string();
    for digest in [Digest::of(&other), Digest::of(&stand.bytes)] {
        assert!(text.contains(&digest.to_string()), "{text}");
    }
    assert_eq!(stand.fetched(), 0);
    assert!(!stand.partial().exists(), "it would be gone on with");
    assert_eq!(stand.server.requests(), [None]);
}

#[test]
fn a_server_that_has_it_not_is_asked_once() {
    let stand = Stand::new(&[Act::Status(404)]);
    let error = stand.get_or_build().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Environment);
    assert!(error.to_string().contains("404 Not Found"), "{error}");
    assert_eq!(stand.server.requests(), [None]);
    assert_eq!(stand.fetched(), 0);
}

#[test]
fn a_server_that_falls_silent_is_left_and_asked_again() {
    let stand = Stand::new(&[Act::Stall(200), Act::Serve]);
    stand.get_or_build().unwrap();
    assert_eq!(stand.server.requests(), [None, Some(200)]);
    let stand = Stand::new(&[Act::Stall(200), Act::Stall(0)]);
    let error = stand.get_or_build().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Environment);
    let text = error.to_string();
    assert!(text.contains("4 times in a row"), "{text}");
    assert!(text.contains("200 bytes of it are kept"), "{text}");
    assert_eq!(fs::read(stand.partial()).unwrap(), &stand.bytes[..200]);
}

#[test]
fn nobody_answers() {
    let stand = Stand::new(&[Act::Serve]);
    let word = format!("http://127.0.0.1:9/x.tar.gz#sha256={}", Digest::of(b""));
    let error = stand
        .bench
        .get_or_build(&stand.bench.wanted(&word))
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Environment);
    assert!(error.to_string().contains("127.0.0.1:9"), "{error}");
}

#[test]
fn a_download_without_end_is_ended_and_so_is_an_unwanted_one() {
    let mut stand = Stand::new(&[Act::Drip]);
    stand.bench.options.fetch_deadline = Duration::from_secs(1);
    let start = Instant::now();
    let error = stand.get_or_build().unwrap_err();
    assert!(error.to_string().contains("it took too long"), "{error}");
    assert!(start.elapsed() < Duration::from_secs(5));
    assert!(stand.partial().exists());

    let stand = Stand::new(&[Act::Stall(10)]);
    let cancel = AtomicBool::new(false);
    let start = Instant::now();
    let error = std::thread::scope(|scope| {
        let ensuring = scope.spawn(|| {
            let wanted = stand.bench.wanted(&stand.word());
            let (cache, options) = (stand.bench.cache(), &stand.bench.options);
            get_or_build(&cache, &wanted, options, &Listener::default(), &cancel)
        });
        std::thread::sleep(Duration::from_millis(300));
        cancel.store(true, Ordering::Relaxed);
        ensuring.join().unwrap().unwrap_err()
    });
    assert_eq!(error.kind(), ErrorKind::Interrupted);
    assert!(start.elapsed() < Duration::from_secs(5));
}

#[test]
fn a_damaged_archive_in_the_cache_is_fetched_again() {
    let stand = Stand::new(&[Act::Serve]);
    let kernel = stand.get_or_build().unwrap();
    let cache = stand.bench.cache();
    let archive = crate::bench::folders(&cache.part(Part::Sources))[0].join("archive");
    fs::write(&archive, "damaged").unwrap();
    fs::remove_dir_all(cache.part(Part::Trees)).unwrap();
    fs::remove_dir_all(cache.part(Part::Kernels)).unwrap();
    let (again, told) = stand.ensure_told();
    assert_eq!(again.unwrap().image_digest, kernel.image_digest);
    assert!(told.contains("is damaged: it is fetched again"), "{told}");
}
