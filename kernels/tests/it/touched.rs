//! What patches touch, computed from the sources without and with them.

use std::sync::atomic::AtomicBool;

use numalab_kernels::patch::Touched;
use numalab_kernels::spec::{Direction, Patch};

use crate::bench::{Bench, Listener, change};

/// What a diff touches in the small kernel.
#[track_caller]
fn touched(bench: &Bench, text: &str, direction: Direction) -> Touched {
    numalab_kernels::touched(
        &bench.cache(),
        &bench.wanted("small"),
        &[Patch::new(
            "some.patch",
            text.as_bytes().to_vec(),
            direction,
        )],
        &bench.options,
        &Listener::default(),
        &AtomicBool::new(false),
    )
    .unwrap()
    .unwrap()
}

#[test]
fn every_form_of_a_diff_touches_the_same() {
    let bench = Bench::new();
    let expected = touched(&bench, &change(), Direction::Apply);
    assert_eq!(expected.why("second").unwrap(), "second() is changed");
    assert_eq!(expected.why("second.c").unwrap(), "second.c is changed");
    let plain = change().split_once('\n').unwrap().1.to_owned();
    let noprefix = change()
        .replace("a/second.c", "second.c")
        .replace("b/second.c", "second.c");
    let crlf = change().replace('\n', "\r\n");
    for text in [plain, noprefix, crlf] {
        assert_eq!(touched(&bench, &text, Direction::Apply), expected, "{text}");
    }
}

#[test]
fn what_is_reverted_touches_the_same_function() {
    let bench = Bench::new();
    let applied = change().replace("value + 1", "value + 0");
    let backwards = applied
        .replace("-\treturn value + 0;", "-\treturn value + 2;")
        .replace("+\treturn value + 2;", "+\treturn value + 1;");
    let touched = touched(&bench, &backwards, Direction::Revert);
    assert!(touched.why("second").is_some(), "{touched:?}");
    assert_eq!(touched.files[0].changes[0].removed, ["\treturn value + 1;"]);
}

#[test]
fn an_image_has_no_source_to_compare() {
    let bench = Bench::new();
    let kernel = bench.get_or_build(&bench.wanted("small")).unwrap();
    let image = bench.wanted(&kernel.image.to_string_lossy());
    let touched = numalab_kernels::touched(
        &bench.cache(),
        &image,
        &[],
        &bench.options,
        &Listener::default(),
        &AtomicBool::new(false),
    );
    assert_eq!(touched.unwrap(), None);
}
