//! Mails taken apart: an mbox into its mails, a mail into its message and its diffs.
//!
//! What the mail is worth is judged elsewhere (the module `mail`).

use std::borrow::Cow;

use mail_parser::decoders::base64::base64_decode;
use mail_parser::decoders::quoted_printable::quoted_printable_decode;
use mail_parser::{Encoding, MessageParser, MessagePart, MimeHeaders as _, PartType};

use crate::patch::diff::{self, FileDiff};
use crate::spec::{Direction, Patch};

/// A mail, decoded.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct MailText {
    /// The subject in its header.
    pub(crate) subject: String,
    /// The subject at the beginning of its body, which names the patch.
    pub(crate) inner_subject: Option<String>,
    pub(crate) message_id: Option<String>,
    /// Its text up to its diffs.
    pub(crate) message: String,
    /// The rest: its diffs, with what follows them.
    pub(crate) diff: Vec<u8>,
    /// Its text from its first diff on, be it part of the patch or not.
    pub(crate) tail: String,
    /// Whether its only text is HTML.
    pub(crate) html: bool,
    /// The names of attached patches.
    pub(crate) attached: Vec<String>,
    /// Diffs that are not part of the patch, as a sentence.
    pub(crate) left_out: Option<String>,
}

/// The mails of a file.
pub(crate) fn split(bytes: &[u8]) -> Vec<Vec<u8>> {
    let bytes = bytes.trim_ascii_start();
    // Archives put a `>` before each `From ` of a body.
    let escaped = bytes.starts_with(b"From mboxrd@z ");
    let mbox = bytes.starts_with(b"From ");
    let mut mails: Vec<Vec<u8>> = Vec::new();
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        if mails.is_empty() || (mbox && is_separator(line)) {
            mails.push(Vec::new());
            if mbox {
                continue;
            }
        }
        let quoted = line.iter().position(|byte| *byte != b'>').unwrap_or(0);
        let from = escaped && quoted > 0 && line[quoted..].starts_with(b"From ");
        if let Some(mail) = mails.last_mut() {
            mail.extend(&line[usize::from(from)..]);
        }
    }
    if let Some(mail) = mails.last_mut()
        && !mail.ends_with(b"\n")
    {
        mail.push(b'\n');
    }
    mails
}

/// Whether a line separates mails: it has a time and a year.
fn is_separator(line: &[u8]) -> bool {
    let text = String::from_utf8_lossy(line);
    let Some(rest) = text.strip_prefix("From ") else {
        return false;
    };
    let mut words = rest.split_whitespace();
    let time = |word: &str| {
        let digit = |letter: char| letter.is_ascii_digit() || letter == ':';
        word.contains(':') && word.chars().all(digit)
    };
    let year = |word: &str| word.parse::<u32>().is_ok_and(|year| year >= 1970);
    words.any(time) && words.any(year)
}

/// Decodes a mail. An error is a clause: what is wrong with it.
pub(crate) fn decode(raw: &[u8]) -> Result<MailText, String> {
    let message = MessageParser::default()
        .parse(raw)
        .ok_or("it cannot be read as a mail")?;
    let mut mail = MailText {
        subject: one_line(message.subject().unwrap_or_default()),
        message_id: message.message_id().map(str::to_owned),
        ..MailText::default()
    };
    let (mut text, mut html) = (Vec::new(), false);
    for part in &message.parts {
        let is_patch = patch_name(part);
        let kind = part.content_type();
        let media = kind.map_or("text", |kind| kind.ctype());
        let is_html = kind.is_some_and(|kind| kind.subtype() == Some("html"));
        match &part.body {
            PartType::Multipart(_) | PartType::Message(_) => continue,
            _ if is_patch.is_some() => mail.attached.extend(is_patch),
            _ if is_html => {
                // It repeats the text, with marks in the diff.
                html = true;
                continue;
            }
            _ if !media.eq_ignore_ascii_case("text") => continue,
            _ => {}
        }
        text.extend(decoded(part, raw)?);
        if !text.ends_with(b"\n") {
            text.push(b'\n');
        }
    }
    mail.html = html && text.is_empty();
    separate(&without_cr(&text).unwrap_or(text), &mut mail);
    Ok(mail)
}

/// A part's bytes. They are not converted from its character set: a diff's must be the file's.
fn decoded(part: &MessagePart<'_>, raw: &[u8]) -> Result<Vec<u8>, String> {
    let (start, end) = (part.offset_body as usize, part.offset_end as usize);
    let body = raw.get(start..end).unwrap_or_default();
    let bytes = match part.encoding {
        Encoding::None => Some(body.to_vec()),
        Encoding::QuotedPrintable => quoted_printable_decode(body),
        Encoding::Base64 => base64_decode(body),
    };
    let bytes = bytes.ok_or("its encoding (base64 or quoted-printable) is damaged")?;
    let flowed = part
        .content_type()
        .and_then(|kind| kind.attribute("format"))
        .is_some_and(|format| format.eq_ignore_ascii_case("flowed"));
    if !flowed || !is_stuffed(&bytes) {
        return Ok(bytes);
    }
    let lines = bytes.split_inclusive(|byte| *byte == b'\n');
    let unstuffed = lines.map(|line| line.strip_prefix(b" ").unwrap_or(line));
    Ok(unstuffed.collect::<Vec<_>>().concat())
}

/// The name of a part that is an attached patch.
fn patch_name(part: &MessagePart<'_>) -> Option<String> {
    let name = part.attachment_name();
    let subtype = part.content_type().and_then(|kind| kind.subtype());
    let ends = |name: &str| {
        let name = name.to_ascii_lowercase();
        [".patch", ".diff", ".mbox", ".mbx"]
            .iter()
            .any(|ending| name.ends_with(ending))
    };
    let named = name.is_some_and(ends);
    let typed = subtype.is_some_and(|kind| kind.contains("patch") || kind.contains("diff"));
    let shown = name.or(subtype).unwrap_or_default();
    (named || typed).then(|| shown.to_owned())
}

/// Whether a diff's lines have the space before each leading space that `format=flowed`
/// asks for (RFC 3676). Many programs declare it and send the lines as they are.
fn is_stuffed(text: &[u8]) -> bool {
    let text = String::from_utf8_lossy(text);
    let mut spaced = text
        .lines()
        .skip_while(|line| !line.starts_with("@@ "))
        .filter(|line| line.starts_with(' '))
        .peekable();
    spaced.peek().is_some() && spaced.all(|line| line.starts_with("  "))
}

/// Takes a mail's text apart.
fn separate(text: &[u8], mail: &mut MailText) {
    let lines: Vec<&[u8]> = text.split_inclusive(|byte| *byte == b'\n').collect();
    let shown: Vec<_> = lines
        .iter()
        .map(|line| String::from_utf8_lossy(line))
        .collect();
    // A malformed one is reported by whoever applies it.
    let diffs = diff::read(&Patch::new("", text.to_vec(), Direction::Apply)).unwrap_or_default();
    let outside = |index: usize| {
        let within = |diff: &FileDiff| (diff.line..=diff.end).contains(&(index + 1));
        !diffs.iter().any(within)
    };
    let last = diffs.last().map_or(0, |diff| diff.line);
    // The last such line that has a diff after it.
    let mark = |is_it: fn(&str) -> bool| {
        (0..last.saturating_sub(1)).rfind(|index| outside(*index) && is_it(&shown[*index]))
    };
    let scissors = mark(is_scissors);
    let mut start = scissors.map_or(0, |index| index + 1);
    let rule = mark(|line| line.trim_end() == "---").filter(|index| *index >= start);
    let before = |index: Option<usize>| -> Vec<&str> {
        let names = diffs.iter().filter(|diff| Some(diff.line - 1) < index);
        names
            .filter_map(|diff| diff.new.as_deref().or(diff.old.as_deref()))
            .collect()
    };
    for (place, index) in [("scissors", scissors), ("`---`", rule)] {
        let files = before(index).join(", ");
        if !files.is_empty() {
            mail.left_out = Some(format!(
                "has a diff above its {place} line, of {}, which is ignored: only what follows that \
                 line is used",
                files.escape_debug()
            ));
        }
    }
    start = inner_headers(&shown, start, mail);
    let begins = |index: &usize| {
        let line = &shown[*index];
        let header = line.starts_with("--- ")
            && shown
                .get(index + 1)
                .is_some_and(|next| next.starts_with("+++ "));
        line.trim_end() == "---"
            || header
            || line.starts_with("diff -")
            || line.starts_with("Index: ")
    };
    let begin = match rule.filter(|rule| !before(Some(*rule)).is_empty()) {
        Some(rule) => rule,
        None => (start..lines.len()).find(begins).unwrap_or(lines.len()),
    };
    let first = diffs
        .iter()
        .map(|diff| diff.line - 1)
        .find(|line| *line >= start);
    mail.tail = shown[first.map_or(begin, |first| first.min(begin))..].concat();
    mail.message = shown[start.min(begin)..begin].concat();
    mail.diff = lines[begin..].concat();
}

/// Reads the headers at the beginning of a body; where the text after them begins.
fn inner_headers(lines: &[Cow<'_, str>], start: usize, mail: &mut MailText) -> usize {
    let blank = |index: &usize| lines[*index].trim().is_empty();
    let first = (start..lines.len()).find(|index| !blank(index));
    let mut next = first.unwrap_or(start);
    while let Some(line) = lines.get(next) {
        let key = line.split_once(':').map_or("", |(key, _)| key);
        if !["from", "subject", "date"].contains(&key.to_ascii_lowercase().as_str()) {
            break;
        }
        let more = lines[next + 1..].iter();
        let more = more.take_while(|line| line.starts_with([' ', '\t']) && !line.trim().is_empty());
        let end = next + 1 + more.count();
        if key.eq_ignore_ascii_case("subject") {
            mail.inner_subject = Some(one_line(&lines[next..end].concat()[key.len() + 1..]));
        }
        next = end;
    }
    next
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Whether a line is git's mark that the patch begins below it: `-- >8 --`.
fn is_scissors(line: &str) -> bool {
    let line = line.trim_end();
    let marks = line.chars().filter(|letter| "-><8%".contains(*letter));
    let visible = line.chars().filter(|letter| !letter.is_whitespace());
    [">8", "8<", ">%", "%<"]
        .iter()
        .any(|mark| line.contains(mark))
        && line.contains("--")
        && !line.starts_with([' ', '+', '>'])
        && marks.count() * 3 >= visible.count()
}

/// The text with LF line ends, if each of its lines ends with CRLF: then they come from how
/// it was sent or saved, and are no part of the diff.
pub(super) fn without_cr(bytes: &[u8]) -> Option<Vec<u8>> {
    let lines = bytes.split_inclusive(|byte| *byte == b'\n');
    let all = lines
        .clone()
        .filter(|line| line.ends_with(b"\n"))
        .all(|line| line.ends_with(b"\r\n"));
    (all && bytes.contains(&b'\r')).then(|| {
        lines
            .flat_map(|line| match line.strip_suffix(b"\r\n") {
                Some(line) => [line, b"\n"],
                None => [line, b""],
            })
            .flatten()
            .copied()
            .collect()
    })
}
