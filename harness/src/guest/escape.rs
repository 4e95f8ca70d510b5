//! Makes guest text safe to show: what a guest prints reaches a terminal only through
//! [`escape`].

use std::borrow::Cow;
use std::fmt::Write;

/// Decodes lossily, and replaces characters that could control a terminal or disguise text by
/// their numbers: control characters except the line feed, and Unicode's invisible and
/// direction-changing characters. A carriage return at a line's end is dropped, and a
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

/// The same for a whole text of ours, which may quote names of files and what guests print.
pub fn terminal_safe(text: &str) -> Cow<'_, str> {
    let unsafe_here = |character| acts(character) && !matches!(character, '\n' | '\t');
    match text.contains(unsafe_here) {
        true => Cow::Owned(escape(text.as_bytes())),
        false => Cow::Borrowed(text),
    }
}

/// JSON that is safe to show: what could act on a terminal is written as `\uXXXX`, which means
/// the same.
pub fn json_safe(json: &str) -> String {
    let mut shown = String::with_capacity(json.len());
    for character in json.chars() {
        if !acts(character) || character == '\n' {
            shown.push(character);
            continue;
        }
        for unit in character.encode_utf16(&mut [0; 2]) {
            // Writing to a string cannot fail.
            write!(shown, "\\u{unit:04x}").ok();
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

    #[test]
    fn json_means_the_same_when_it_is_safe() {
        let value = serde_json::json!({"a\u{7f}": "\u{1b}[1m\u{9b}\u{202e}\u{e0041}\n\t\u{e4}"});
        let safe = json_safe(&format!("{value:#}\n"));
        assert_eq!(
            serde_json::from_str::<serde_json::Value>(&safe).unwrap(),
            value
        );
        assert!(matches!(terminal_safe(&safe), Cow::Borrowed(_)), "{safe}");
    }

    proptest! {
        #[test]
        fn no_control_character_gets_through(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let shown = escape(&bytes);
            prop_assert!(!shown.chars().any(|c| acts(c) && c != '\n'));
        }
    }
}
