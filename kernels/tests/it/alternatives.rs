//! What stands in for a package that cannot be had: used with a note, recorded, and verified.
//! (With an apt that has no such package: in `packages`.)

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::symlink;

use numalab_kernels::cache::Part;
use numalab_kernels::{Digest, ErrorKind};

use crate::bench::{Bench, Listener};
use crate::server::{Act, Server};
use crate::tarballs::{self, Packed};

/// All tools of this machine but for apt-get.
fn without_apt(bench: &Bench) -> OsString {
    let folder = bench.path().join("no-apt");
    fs::create_dir(&folder).unwrap();
    let path = std::env::var_os("PATH").unwrap();
    for tool in std::env::split_paths(&path)
        .filter_map(|folder| fs::read_dir(folder).ok())
        .flatten()
        .flatten()
    {
        if tool.file_name() != "apt-get" {
            // The first of a name is the one that PATH means.
            let _ = symlink(tool.path(), folder.join(tool.file_name()));
        }
    }
    folder.into_os_string()
}

fn define(bench: &Bench, server: &Server, digest: Digest) {
    let text = format!(
        "summary: x\nsource: {{debian: linux-source-nowhere}}\nalternative:\n  url: {}\n  \
         sha256: {digest}\nset: {{CONFIG_SMALL: y, CONFIG_NUMA: y}}\n",
        server.url()
    );
    bench.define("packed", &text);
    bench.define("child", "summary: x\nbase: packed\n");
}

#[test]
fn without_apt_the_alternative_is_used_and_told() {
    let mut bench = tarballs::bench();
    let bytes = fs::read(tarballs::pack(&bench, &Packed::default())).unwrap();
    let server = Server::start(bytes.clone(), &[Act::Serve, Act::Status(500)]);
    define(&bench, &server, Digest::of(&bytes));
    bench.options.path = Some(without_apt(&bench));
    for word in ["packed", "child"] {
        let listener = Listener::default();
        let kernel = bench.ensure_told(&bench.wanted(word), &listener).unwrap();
        assert_eq!(kernel.name, format!("{word}=linux-small.tar.gz"));
        let source = &kernel.manifest.built.as_ref().unwrap().source;
        assert_eq!(source.digest, Digest::of(&bytes));
        let told = listener.text();
        assert!(told.contains("its alternative is used: http://"), "{told}");
    }
    assert_eq!(server.requests().len(), 1);
}

#[test]
fn an_alternative_that_is_something_else_is_not_used() {
    let mut bench = tarballs::bench();
    let server = Server::start(b"something else".to_vec(), &[Act::Serve]);
    define(&bench, &server, Digest::of(b"what was meant"));
    bench.options.path = Some(without_apt(&bench));
    let error = bench.get_or_build(&bench.wanted("packed")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Input, "{error}");
    assert!(error.to_string().contains("is not used"), "{error}");
    let cache = bench.cache();
    assert_eq!(fs::read_dir(cache.part(Part::Kernels)).unwrap().count(), 0);
}
