//! Guest text made fit to be shown.
//!
//! A guest is not trusted: what it prints reaches a terminal only through [`escape`]. HTML
//! and XML have their own rules on top, which are not known here.

use std::fmt::Write;

/// Decodes lossily and replaces whatever could act on a terminal, or make text look other
/// than it is, by its number: control characters but the line feed, and Unicode's invisible
/// and direction-changing characters. A carriage return at a line's end is dropped, and a
/// tab becomes a space.
pub fn escape(bytes: &[u8]) -> String {
    let mut shown = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        let text = chunk.valid();
        let mut characters = text.chars().peekable();
        while let Some(character) = characters.next() {
            match character {
                '\n' => shown.push('\n'),
                '\t' => shown.push(' '),
                '\r' if characters.peek().is_none_or(|next| *next == '\n') => {}
                _ if acts(character) => push(&mut shown, "u", u32::from(character)),
                _ => shown.push(character),
            }
        }
        for byte in chunk.invalid() {
            push(&mut shown, "x", u32::from(*byte));
        }
    }
    shown
}

fn push(shown: &mut String, kind: &str, number: u32) {
    // Writing to a string cannot fail.
    write!(shown, "\\{kind}{{{number:02x}}}").ok();
}

fn acts(character: char) -> bool {
    character.is_control()
        || matches!(
            character,
            '\u{ad}'
                | '\u{61c}'
                | '\u{180e}'
                | '\u{200b}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{feff}'
                | '\u{fff9}'..='\u{fffb}'
                | '\u{e0000}'..='\u{e007f}'
        )
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn plain_text_stays() {
        assert_eq!(escape("a b\u{e4}\r\nc\td\r".as_bytes()), "a b\u{e4}\nc d");
    }

    #[test]
    fn nothing_acts_on_the_terminal() {
        assert_eq!(escape(b"\x1b[2Jx\x07\x9b1m"), "\\u{1b}[2Jx\\u{07}\\x{9b}1m");
        assert_eq!(escape(b"10%\r99%"), "10%\\u{0d}99%");
        assert_eq!(escape("\u{9b}\u{202e}".as_bytes()), "\\u{9b}\\u{202e}");
        assert_eq!(escape(b"\xff\xe2\x80"), "\\x{ff}\\x{e2}\\x{80}");
    }

    proptest! {
        #[test]
        fn no_control_character_gets_through(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let shown = escape(&bytes);
            prop_assert!(!shown.chars().any(|c| acts(c) && c != '\n'));
        }
    }
}
