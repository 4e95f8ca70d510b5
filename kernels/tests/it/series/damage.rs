//! Whatever a file holds, it is a series or it is refused.

use proptest::prelude::*;
use proptest::sample::Index;

use super::encodings::base64;
use super::*;

/// A thread that is read: cover letter, parts in the wrong order, a reply, an encoded mail.
fn thread() -> Vec<u8> {
    let encoded = mail("[PATCH v2 2/3] two", "").replacen(
        "\n\n",
        "\nContent-Transfer-Encoding: base64\n\n",
        1,
    ) + &base64(&format!("Why.\n---\n{}-- \n2.43\n", diff("two.c")));
    [
        patch("[PATCH v2 3/3] three", "three.c"),
        mail("[PATCH v2 0/3] all", "Text\n"),
        encoded,
        mail(
            "Re: [PATCH v2 1/3] =?UTF-8?Q?f=C3=BCr?=",
            "> diff --git a/x b/x\n-- >8 --\n",
        ),
        patch("[PATCH v2 1/3] one", "one.c"),
    ]
    .concat()
    .into_bytes()
}

fn cases() -> ProptestConfig {
    let asked = std::env::var_os("PROPTEST_CASES").is_some();
    let mut config = ProptestConfig::default();
    if !asked {
        // Each case runs git some ten times.
        config.cases = 12;
    }
    config
}

proptest! {
    #![proptest_config(cases())]

    /// Whatever a file holds, it is a series or it is refused; what is taken has the parts
    /// that its subjects promise, in their order.
    #[test]
    fn a_damaged_thread_is_whole_or_refused(
        edits in proptest::collection::vec((any::<Index>(), 0_usize..90, 0_usize..16), 0..5),
    ) {
        const WORDS: [&str; 8] = [
            "\n\n", "From 0123456789012345678901234567890123456789 Mon Sep 17 00:00:00 2001\n", "\r\n",
            "Subject: Re: [PATCH 1/2] x\n", "Content-Type: multipart/mixed; boundary=x\n", "=?UTF-8?B?", "\0", "> ",
        ];
        let mut bytes = thread();
        for (at, length, word) in edits {
            let at = at.index(bytes.len() + 1);
            let end = (at + length).min(bytes.len());
            match WORDS.get(word) {
                Some(word) => drop(bytes.splice(at..at, word.bytes())),
                None => drop(bytes.drain(at..end)),
            }
        }
        let desk = Desk::new();
        desk.write("x.mbox", &bytes);
        match desk.try_read(&["x.mbox"], Direction::Apply) {
            Ok(series) => {
                let numbers: Vec<_> = series.patches.iter().map(|patch| patch.number).collect();
                if let [_, _, ..] = numbers[..] {
                    let whole = (1..).zip(&numbers).all(|(part, number)| {
                        number.is_none_or(|number| number.part == part && number.of as usize == numbers.len())
                    });
                    prop_assert!(whole, "{numbers:?}");
                }
            }
            Err(error) => {
                prop_assert_eq!(error.kind(), ErrorKind::Input, "{}", error);
                prop_assert!(!error.to_string().contains('\n'), "{}", error);
            }
        }
    }
}
