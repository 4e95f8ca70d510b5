//! The parts of a mail: what git would take for text though it is none.
//!
//! Git decodes each part and puts them together. So the HTML twin of a text, which
//! repeats its diff with marks in it, and signatures, pictures and the like are cut out
//! before. Pure; what the parts say is not looked at.

/// How many parts of a mail may have parts of their own.
const DEEPEST: usize = 50;

/// A mail without what is no text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Prepared {
    /// The mail.
    pub(crate) bytes: Vec<u8>,
    /// Whether its only text is HTML.
    pub(crate) html: bool,
    /// The names of attached patches.
    pub(crate) attached: Vec<String>,
}

/// One part's headers, as far as they matter.
#[derive(Debug, Default)]
struct Head {
    kind: String,
    disposition: String,
}

impl Head {
    /// Takes one header, its lines joined.
    fn take(&mut self, header: &str) {
        let Some((key, value)) = header.split_once(':') else {
            return;
        };
        let value = value.trim().to_owned();
        if key.trim_end().eq_ignore_ascii_case("content-type") {
            self.kind = value;
        } else if key.trim_end().eq_ignore_ascii_case("content-disposition") {
            self.disposition = value;
        }
    }

    /// The media type, for instance `text/plain`.
    fn media(&self) -> String {
        let media = self.kind.split(';').next().unwrap_or_default();
        media.trim().to_ascii_lowercase()
    }

    fn file_name(&self) -> Option<String> {
        parameter(&self.disposition, "filename").or_else(|| parameter(&self.kind, "name"))
    }

    /// Whether it is an attached patch.
    fn is_patch(&self) -> bool {
        let named = self.file_name().is_some_and(|name| {
            let name = name.to_ascii_lowercase();
            [".patch", ".diff", ".mbox", ".mbx"]
                .iter()
                .any(|ending| name.ends_with(ending))
        });
        let media = self.media();
        named || media.contains("patch") || media.contains("diff")
    }

    /// Whether git is to see it.
    fn is_text(&self) -> bool {
        let media = self.media();
        media.is_empty()
            || (media.starts_with("text/") && media != "text/html")
            || media.starts_with("multipart/")
            || self.is_patch()
    }
}

/// A parameter of a header's value: `boundary="x"`.
fn parameter(value: &str, name: &str) -> Option<String> {
    let mut rest = value;
    loop {
        let (_, after) = rest.split_once(';')?;
        let (key, text) = after.split_once('=').unwrap_or((after, ""));
        rest = after;
        if !key.trim().eq_ignore_ascii_case(name) {
            continue;
        }
        let text = text.trim_start();
        return Some(match text.strip_prefix('"') {
            Some(quoted) => quoted.split('"').next().unwrap_or_default().to_owned(),
            None => {
                let end = |letter: char| letter == ';' || letter.is_whitespace();
                text.split(end).next().unwrap_or_default().to_owned()
            }
        });
    }
}

/// Cuts out of a mail the parts that are no text.
pub(crate) fn prepare(mail: &[u8]) -> Prepared {
    let mut prepared = Prepared {
        bytes: Vec::with_capacity(mail.len()),
        html: false,
        attached: Vec::new(),
    };
    let mut boundaries: Vec<String> = Vec::new();
    let mut state = State::Headers;
    let mut head = Head::default();
    let mut header = String::new();
    let mut headers: Vec<u8> = Vec::new();
    let stuffed = is_stuffed(mail);
    let mut texts = 0;
    let mut outermost = true;
    for line in mail.split_inclusive(|byte| *byte == b'\n') {
        let text = String::from_utf8_lossy(line);
        let text = text.trim_end_matches(['\r', '\n']);
        let boundary = text.strip_prefix("--").is_some_and(|rest| {
            let rest = rest.trim_end();
            boundaries.iter().any(|boundary| {
                rest == boundary || rest.strip_suffix("--") == Some(boundary.as_str())
            })
        });
        if boundary {
            state = if text.trim_end().ends_with("--")
                && !boundaries
                    .iter()
                    .any(|known| text.trim_end() == format!("--{known}"))
            {
                State::Body
            } else {
                State::Headers
            };
            head = Head::default();
            header.clear();
            headers.clear();
            prepared.bytes.extend(line);
            continue;
        }
        match state {
            State::Headers if text.is_empty() => {
                head.take(&header);
                header.clear();
                if boundaries.len() < DEEPEST
                    && let Some(boundary) = parameter(&head.kind, "boundary")
                    && head.media().starts_with("multipart/")
                    && !boundary.is_empty()
                {
                    boundaries.push(boundary);
                } else if head.is_text() {
                    texts += 1;
                }
                if head.is_patch() {
                    let name = head.file_name().unwrap_or_else(|| head.media());
                    prepared.attached.push(name);
                }
                if head.media() == "text/html" && !head.is_patch() {
                    prepared.html = true;
                }
                // The headers of the mail itself stay, whatever it is.
                state = if head.is_text() {
                    State::Body
                } else {
                    State::Cut
                };
                if outermost || state == State::Body {
                    prepared.bytes.extend(if stuffed {
                        headers.clone()
                    } else {
                        without_flowed(&headers)
                    });
                }
                outermost = false;
                prepared.bytes.extend(line);
            }
            State::Headers => {
                if text.starts_with([' ', '\t']) {
                    header.push(' ');
                    header.push_str(text.trim());
                } else {
                    head.take(&header);
                    text.clone_into(&mut header);
                }
                headers.extend(line);
            }
            State::Body => prepared.bytes.extend(line),
            State::Cut => {}
        }
    }
    if matches!(state, State::Headers) {
        prepared.bytes.extend(&headers);
    }
    prepared.html &= texts == 0;
    prepared
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// In a part's headers.
    Headers,
    /// In a part that git is to see.
    Body,
    /// In one that it is not.
    Cut,
}

/// Whether a diff's lines have the space before each leading space that `format=flowed`
/// asks for (RFC 3676, "space-stuffing"). Git takes it away where the header declares
/// it; many programs declare it and send the lines as they are.
fn is_stuffed(mail: &[u8]) -> bool {
    let lines = mail.split(|byte| *byte == b'\n');
    lines
        .skip_while(|line| !line.starts_with(b"@@ -"))
        .filter(|line| line.starts_with(b" "))
        .all(|line| line.starts_with(b"  "))
}

/// Headers whose content type does not declare `format=flowed`.
fn without_flowed(headers: &[u8]) -> Vec<u8> {
    const NAME: &[u8] = b"format=";
    let mut headers = headers.to_vec();
    let mut within = false;
    for line in headers.split_inclusive_mut(|byte| *byte == b'\n') {
        let lower = line.to_ascii_lowercase();
        if !lower.starts_with(b" ") && !lower.starts_with(b"\t") {
            within = lower.starts_with(b"content-type:");
        }
        let found = lower.windows(NAME.len()).position(|word| word == NAME);
        if let Some(at) = found.filter(|_| within) {
            line[at..at + NAME.len()].copy_from_slice(b"x-form=");
        }
    }
    headers
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(prepared: &Prepared) -> String {
        String::from_utf8(prepared.bytes.clone()).unwrap()
    }

    #[test]
    fn a_plain_mail_stays_as_it_is() {
        let mail = "From: A\nSubject: x\n folded\n\nbody\n--no boundary\n--x\n";
        let prepared = prepare(mail.as_bytes());
        assert_eq!(text(&prepared), mail);
        assert!(!prepared.html && prepared.attached.is_empty());
        let only_headers = "From: A\nSubject: x";
        assert_eq!(text(&prepare(only_headers.as_bytes())), only_headers);
    }

    #[test]
    fn the_html_twin_is_cut_out_and_the_text_stays() {
        let mail = "Subject: x\nContent-Type: multipart/alternative;\n boundary=\"b 1\"\n\n\
                    --b 1\nContent-Type: text/plain\n\ntext\n--b 1\nContent-Type: text/html\n\n\
                    <p>text\n--b 1--\nafter\n";
        let prepared = prepare(mail.as_bytes());
        assert!(!prepared.html);
        let text = text(&prepared);
        assert!(text.contains("\ntext\n") && !text.contains("<p>"), "{text}");
        assert!(text.starts_with("Subject: x\n"), "{text}");
        assert!(text.contains("--b 1--\nafter"), "{text}");
    }

    #[test]
    fn html_alone_is_told() {
        let mail = "Subject: x\nContent-Type: Text/HTML; charset=utf-8\n\n<p>\n";
        let prepared = prepare(mail.as_bytes());
        assert!(prepared.html);
        assert!(text(&prepared).starts_with("Subject: x\n"));
    }

    #[test]
    fn attached_patches_are_named_and_pictures_cut_out() {
        let mail = "Content-Type: multipart/mixed; boundary=b\n\n--b\n\nhello\n--b\n\
                    Content-Type: application/octet-stream\n\
                    Content-Disposition: attachment; filename=\"0001-x.PATCH\"\n\nZGlmZg==\n--b\n\
                    Content-Type: text/x-diff; name=y\n\ndiff\n--b\nContent-Type: image/png\n\n\
                    PICTURE\n--b--\n";
        let prepared = prepare(mail.as_bytes());
        assert_eq!(prepared.attached, ["0001-x.PATCH", "y"]);
        let text = text(&prepared);
        assert!(text.contains("ZGlmZg==") && text.contains("hello") && !text.contains("PICTURE"));
    }

    #[test]
    fn lines_that_are_not_stuffed_are_not_declared_to_be() {
        let header = "Subject: no format=flowed\nContent-Type: text/plain;\n Format=Flowed\n\n";
        let plain = format!("{header}--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n \tx\n-y\n+z\n");
        let stuffed = plain.replace(" \tx", "  \tx");
        assert_eq!(text(&prepare(stuffed.as_bytes())), stuffed);
        assert_eq!(
            text(&prepare(plain.as_bytes())),
            plain.replace("Format=", "x-form=")
        );
    }
}
