//! The forms in which people's programs send mails.

use super::*;

/// A mail without the line that separates mails.
pub(super) fn lone_mail(headers: &str, body: &str) -> String {
    format!("From: A <a@example.org>\nSubject: [PATCH] numa: x\n{headers}\n{body}")
}

pub(super) fn base64(text: &str) -> String {
    const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::new();
    for (index, piece) in text.as_bytes().chunks(3).enumerate() {
        if index > 0 && index % 19 == 0 {
            out.push('\n');
        }
        let mut bits = [0; 3];
        bits[..piece.len()].copy_from_slice(piece);
        let bits = u32::from_be_bytes([0, bits[0], bits[1], bits[2]]);
        for place in 0..4 {
            let letter = LETTERS[(bits >> (18 - 6 * place)) as usize & 63];
            out.push(if place > piece.len() {
                '='
            } else {
                char::from(letter)
            });
        }
    }
    out + "\n"
}

#[test]
fn forms_of_mails_that_people_send() {
    let desk = Desk::new();
    let body = format!(
        "Why.\n\n---\n one.c | 2 +-\n\n{}-- \n2.43.0\n",
        diff("one.c")
    );
    let multipart = |kind: &str, parts: &[(&str, String)]| {
        let parts: String = parts
            .iter()
            .map(|(headers, body)| format!("--b1\n{headers}\n\n{body}\n"))
            .collect();
        lone_mail(
            &format!("MIME-Version: 1.0\nContent-Type: multipart/{kind};\n boundary=\"b1\"\n"),
            &format!("{parts}--b1--\n"),
        )
    };
    let quoted = body
        .replace('=', "=3D")
        .replace("-- \n", "--=20\n")
        .replace('\t', "=09");
    let html = body.replace('<', "&lt;");
    let inner = patch("[PATCH] inner", "one.c");
    let cases = [
        ("no separator", lone_mail("", &body)),
        ("no author", format!("Subject: [PATCH] numa: x\n\n{body}")),
        (
            "base64",
            lone_mail("Content-Transfer-Encoding: base64\n", &base64(&body)),
        ),
        (
            "quoted-printable",
            lone_mail(
                "Content-Type: text/plain; charset=utf-8\nContent-Transfer-Encoding: quoted-printable\n",
                &quoted,
            ),
        ),
        ("CRLF", lone_mail("", &body).replace('\n', "\r\n")),
        (
            "CRLF within base64",
            lone_mail(
                "Content-Transfer-Encoding: base64\n",
                &base64(&body.replace('\n', "\r\n")),
            ),
        ),
        (
            "an HTML twin",
            multipart(
                "alternative",
                &[
                    ("Content-Type: text/plain", body.clone()),
                    ("Content-Type: text/html", format!("<pre>\n{html}</pre>")),
                ],
            ),
        ),
        (
            "attached",
            multipart(
                "mixed",
                &[
                    ("Content-Type: text/plain", "See there.\n".to_owned()),
                    (
                        "Content-Type: application/octet-stream\nContent-Transfer-Encoding: base64\n\
                         Content-Disposition: attachment; filename=\"0001-inner.patch\"",
                        base64(&inner),
                    ),
                    (
                        "Content-Type: image/png\nContent-Transfer-Encoding: base64",
                        "iVBORw0KGgo=".to_owned(),
                    ),
                ],
            ),
        ),
        (
            "format=flowed, stuffed",
            lone_mail(
                "Content-Type: text/plain; format=flowed\n",
                &body.replace("\n ", "\n  "),
            ),
        ),
        (
            "format=flowed, as it is",
            lone_mail("Content-Type: text/plain; format=flowed\n", &body),
        ),
        (
            "scissors in a reply",
            format!(
                "From: A <a@example.org>\nSubject: Re: [PATCH 3/7] other\n\n> {}\nBetter:\n\n\
                 -- >8 --\nSubject: [PATCH] numa: x\n\n{body}",
                diff("quoted.c").replace('\n', "\n> ")
            ),
        ),
        (
            "the archive's form",
            format!(
                "From mboxrd@z Thu Jan  1 00:00:00 1970\nFrom: A <a@example.org>\n\
                 Subject: [PATCH] numa: x\n\n>From here on.\n{body}"
            ),
        ),
        (
            "numbered by itself",
            lone_mail("", &body).replace("[PATCH]", "[PATCH RFC v3 1/1]"),
        ),
        (
            "quilt's headers",
            format!("From: A <a@b>\nSubject: numa: x\nOrigin: upstream\n\n{body}"),
        ),
    ];
    for (what, text) in cases {
        desk.write("x.mbox", text);
        let series = desk
            .try_read(&["x.mbox"], Direction::Apply)
            .unwrap_or_else(|error| panic!("{what}: {error}"));
        assert_eq!(titles(&series), ["numa: x"], "{what}");
        let bytes = String::from_utf8(series.patches[0].bytes.clone()).unwrap();
        let bytes = bytes.replace("\r\n", "\n");
        assert!(bytes.contains(&diff("one.c")), "{what}: {bytes}");
        assert_eq!(bytes.matches("diff --git").count(), 1, "{what}: {bytes}");
    }
}

#[test]
fn subjects_and_names_beyond_ascii_are_decoded() {
    let desk = Desk::new();
    let name = diff("one.c").replace("/one.c", "/\u{e4}.c");
    desk.write(
        "x.mbox",
        format!(
            "From: =?ISO-8859-1?Q?J=F6rg?= <j@example.org>\n\
             Subject: =?UTF-8?B?W1BBVENIIDIvMl0gbnVtYTogZsO8cg==?=\n =?UTF-8?Q?_alle?=\n\
             Content-Type: text/plain; charset=UTF-8\nContent-Transfer-Encoding: 8bit\n\n---\n{name}"
        ),
    );
    let series = desk.read(&["x.mbox"]);
    assert_eq!(titles(&series), ["numa: für alle"]);
    assert_eq!(series.patches[0].number.unwrap().to_string(), "2/2");
    assert!(String::from_utf8_lossy(&series.patches[0].bytes).contains("b/\u{e4}.c"));
    assert!(series.notes[0].contains("is patch 2 of 2, and the others are not given"));
}
