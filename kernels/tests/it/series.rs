//! Series: what words mean, what is refused, and in which words. Real git takes the
//! mails apart; nothing is built.

use std::fs;

use numalab_kernels::series::{Series, SeriesError, read};
use numalab_kernels::wanted::Direction;
use numalab_kernels::{Cache, Class};
use proptest::prelude::*;
use proptest::sample::Index;
use tempfile::TempDir;

/// A folder with patches and a cache.
struct Desk {
    folder: TempDir,
    cache: Cache,
}

impl Desk {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::open(folder.path().join("cache")).unwrap();
        Self { folder, cache }
    }

    fn write(&self, name: &str, text: impl AsRef<[u8]>) {
        let path = self.folder.path().join("here").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn try_read(&self, words: &[&str], direction: Direction) -> Result<Series, SeriesError> {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        let here = self.folder.path().join("here");
        fs::create_dir_all(&here).unwrap();
        read(&words, direction, &here, &self.cache)
    }

    #[track_caller]
    fn read(&self, words: &[&str]) -> Series {
        self.try_read(words, Direction::Apply)
            .unwrap_or_else(|error| panic!("{words:?}: {error}"))
    }

    /// What is said of one file that is refused, without the folder's name.
    #[track_caller]
    fn refused(&self, text: impl AsRef<[u8]>) -> String {
        self.write("x.mbox", text);
        self.fails(&["x.mbox"])
    }

    #[track_caller]
    fn fails(&self, words: &[&str]) -> String {
        let error = match self.try_read(words, Direction::Apply) {
            Ok(series) => panic!("{words:?} is taken: {:?}", titles(&series)),
            Err(error) => error,
        };
        assert_eq!(error.class(), Class::Input, "{error:?}");
        let here = self.folder.path().join("here");
        error
            .to_string()
            .replace(&format!("{}/", here.display()), "")
            .replace(&here.display().to_string(), "HERE")
    }
}

fn titles(series: &Series) -> Vec<&str> {
    series
        .patches
        .iter()
        .map(|patch| patch.subject.as_deref().unwrap_or("-"))
        .collect()
}

/// A diff of one line in a file.
fn diff(file: &str) -> String {
    format!(
        "diff --git a/{file} b/{file}\nindex 1111111..2222222 100644\n--- a/{file}\n\
         +++ b/{file}\n@@ -1,3 +1,3 @@ int {file}(void)\n \t{{\n-\treturn 1;\n+\treturn 2;\n \t}}\n"
    )
}

/// A mail of an mbox.
fn mail(subject: &str, body: &str) -> String {
    format!(
        "From 0123456789012345678901234567890123456789 Mon Sep 17 00:00:00 2001\n\
         From: A Developer <dev@example.org>\nDate: Tue, 1 Apr 2025 10:00:00 +0200\n\
         Subject: {subject}\nMessage-ID: <{}@example.org>\n\n{body}\n",
        subject.len()
    )
}

/// A patch as `git format-patch` makes it.
fn patch(subject: &str, file: &str) -> String {
    let body = format!(
        "Why.\n\nSigned-off-by: A\n---\n {file} | 2 +-\n\n{}-- \n2.43.0\n",
        diff(file)
    );
    mail(subject, &body)
}

#[test]
fn a_whole_thread_is_sorted_and_what_is_no_patch_is_counted() {
    let desk = Desk::new();
    let base = "0123456789abcdef0123456789abcdef01234567";
    let reply = "On Tue, A Developer wrote:\n> ---\n> diff --git a/one.c b/one.c\n> --- a/one.c\n\
                 > +++ b/one.c\n> @@ -1 +1 @@\n> -a\n> +b\n\nLooks good.\n";
    desk.write(
        "thread.mbox",
        [
            patch("[PATCH v2 2/2] numa: two", "two.c"),
            mail(
                "[PATCH v2 0/2] numa: both",
                &format!("Text\n\nbase-commit: {base}\n-- \n2.43.0\n"),
            ),
            mail("Re: [PATCH v2 1/2] numa: one", reply),
            patch("[PATCH v2 1/2] numa: one", "one.c"),
            mail("Re: [PATCH v2 0/2] numa: both", "Thanks\n"),
        ]
        .concat(),
    );
    let series = desk.read(&["thread.mbox"]);
    assert_eq!(titles(&series), ["numa: one", "numa: two"]);
    assert_eq!(series.name, "thread");
    assert_eq!(series.title.as_deref(), Some("numa: both"));
    assert_eq!(series.base_commit.as_deref(), Some(base));
    assert_eq!(
        series.notes,
        [
            "3 mails passed over: 1 cover letter, 2 replies",
            "the patches are not in the order of their numbers: sorted"
        ]
    );
    let first = &series.patches[0];
    assert_eq!(first.number.unwrap().to_string(), "1/2");
    assert_eq!(first.mail, Some(4));
    assert_eq!(first.name(), "thread.mbox#4");
    assert!(String::from_utf8_lossy(&first.bytes).contains("+\treturn 2;"));
}

#[test]
fn what_is_taken_back_is_taken_back_from_its_end() {
    let desk = Desk::new();
    desk.write(
        "two.mbox",
        patch("[PATCH 1/2] one", "one.c") + &patch("[PATCH 2/2] two", "two.c"),
    );
    let series = desk.try_read(&["two.mbox"], Direction::Revert).unwrap();
    assert_eq!(titles(&series), ["two", "one"]);
    assert!(
        series
            .patches
            .iter()
            .all(|patch| patch.direction == Direction::Revert)
    );
}

#[test]
fn files_and_folders_of_one_series_are_one() {
    let desk = Desk::new();
    desk.write(
        "f/0000-cover-letter.patch",
        mail("[PATCH 0/2] both", "Text\n"),
    );
    desk.write("f/0001-one.patch", patch("[PATCH 1/2] one", "one.c"));
    desk.write("f/0002-two.patch", patch("[PATCH 2/2] two", "two.c"));
    desk.write("f/README", "no patch");
    let series = desk.read(&["f"]);
    assert_eq!(titles(&series), ["one", "two"]);
    assert_eq!(
        (series.name.as_str(), series.title.as_deref()),
        ("f", Some("both"))
    );
    let series = desk.read(&["f/0002-two.patch", "f/0001-one.patch"]);
    assert_eq!(titles(&series), ["one", "two"]);
    assert_eq!(series.name, "0002-two+0001-one");
}

#[test]
fn a_plain_diff_needs_no_mail_around_it() {
    let desk = Desk::new();
    desk.write("plain.diff", diff("one.c"));
    let series = desk.read(&["plain.diff"]);
    assert_eq!(series.patches.len(), 1);
    assert_eq!(series.patches[0].bytes, diff("one.c").as_bytes());
    assert_eq!(series.title, None);
    assert!(series.notes.is_empty(), "{:?}", series.notes);
}

#[test]
fn what_is_not_there_is_told() {
    let desk = Desk::new();
    assert_eq!(
        desk.fails(&["nope.patch"]),
        "\"nope.patch\" is no patch: neither a file or folder in \"HERE\" (a diff, mails, an mbox) \
         nor a revision range A..B"
    );
}

#[test]
fn a_missing_part_is_named() {
    let desk = Desk::new();
    let eleven: String = (1..=11)
        .map(|part| patch(&format!("[PATCH {part:02}/12] p{part}"), "one.c"))
        .collect();
    assert_eq!(
        desk.refused(eleven),
        "patch 12 of 12 is missing: the series of mail 1 of \"x.mbox\" (\"[PATCH 01/12] p1\") is \
         not whole"
    );
}

/// A mail without the line that separates mails.
fn lone_mail(headers: &str, body: &str) -> String {
    format!("From: A <a@example.org>\nSubject: [PATCH] numa: x\n{headers}\n{body}")
}

fn base64(text: &str) -> String {
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

#[test]
fn what_cannot_be_used_is_refused_with_its_place() {
    let desk = Desk::new();
    let one = diff("one.c");
    let flat = one.replace('\n', " ");
    let headers = "From: A <a@b>\nSubject: [PATCH] numa: x\n";
    let binary = "diff --git a/b.o b/b.o\nindex 1..2 100644\nBinary files a/b.o and b/b.o differ\n";
    let id = "0123456789012345678901234567890123456789";
    let cases: Vec<(&str, Vec<u8>, &str)> = vec![
        ("nothing", b" \n\n".to_vec(), "\"x.mbox\" holds no patch: it is empty"),
        ("NUL", b"--- a/x\n+++ b\0\n".to_vec(), "line 2 has a NUL byte"),
        ("gzip", b"\x1f\x8b\x08\0".to_vec(), "it is compressed (gzip): unpack it first"),
        ("UTF-16", b"\xff\xfed\0i\0".to_vec(), "it is UTF-16"),
        ("a web page", b"<!DOCTYPE html>\n<pre>\ndiff\n".to_vec(), "it is a web page"),
        ("a program", b"int x;\n".to_vec(), "neither `diff --git` nor `---`"),
        (
            "a quoted diff",
            format!("On Monday:\n> {}", one.replace('\n', "\n> ")).into(),
            "it only quotes a diff; save the mail that it answers",
        ),
        (
            "a mail that quotes a diff",
            format!("{headers}\n> {}\n", one.replace('\n', "\n> ")).into(),
            "\"x.mbox\" (\"[PATCH] numa: x\") cannot be used: it only quotes a diff",
        ),
        (
            "one line",
            format!("Subject: [PATCH] x From: a --- {flat}").into(),
            "its line breaks are lost (the diff of one.c, hunk 1 (@@ -1,3 +1,3 @@) follows other \
             text on one line)",
        ),
        (
            "a body in one line",
            format!("{headers}\nWhy. --- {flat}\n").into(),
            "(\"[PATCH] numa: x\") cannot be used: its line breaks are lost (the diff of one.c",
        ),
        (
            "HTML",
            format!("{headers}Content-Type: text/html\n\n<pre>\n{one}</pre>\n").into(),
            "(\"[PATCH] numa: x\") cannot be used: it is an HTML mail",
        ),
        (
            "no diff",
            format!("{headers}\nText.\n").into(),
            "cannot be used: it holds no diff, though its subject says that it is a patch",
        ),
        (
            "a reply",
            b"From: A <a@b>\nSubject: Re: [PATCH] numa: x\n\n> a\nGood.\n".to_vec(),
            "\"x.mbox\" (\"Re: [PATCH] numa: x\") holds no patch: it is a reply without a diff of its \
             own; save the mail that it answers",
        ),
        (
            "a cover letter",
            b"From: A <a@b>\nSubject: [PATCH 0/2] numa: x\n\nText.\n".to_vec(),
            "it is a cover letter, without the patches that it announces",
        ),
        (
            "two mails without a separator",
            format!("{headers}\n---\n{one}-- \n2.43\n\n{headers}\n---\n{}", diff("two.c")).into(),
            "another mail begins at line",
        ),
        (
            "a diff and a mail",
            format!("{one}{}", patch("[PATCH] x", "two.c")).into(),
            "\"x.mbox\" holds no patch: another mail begins at line 10",
        ),
        (
            "git log -p",
            format!("commit {id}\nAuthor: A\n\n    x\n\n{one}\ncommit {id}\n\n{one}").into(),
            "it has several commits as `git log -p` shows them, the newest first",
        ),
        (
            "a merge",
            b"diff --cc f\nindex 1,2..3\n--- a/f\n+++ b/f\n@@@ -1 -1 +1 @@@\n- x\n".to_vec(),
            "it is a merge's combined diff",
        ),
        (
            "a context diff",
            b"*** a/f\t1\n--- b/f\t2\n***************\n*** 1 ****\n! x\n--- 1 ----\n! y\n".to_vec(),
            "it is a context diff",
        ),
        (
            "a binary file",
            format!("{one}{binary}").into(),
            "the patch \"x.mbox\" is malformed at line 12 (b/b.o): it changes a binary file without \
             saying how",
        ),
        (
            "a wrapped line",
            format!("{headers}\n---\n{}", one.replace("\treturn 2;", "\treturn\n2;")).into(),
            "the patch \"x.mbox\" (\"numa: x\") is malformed at line 10 of its diffs (b/one.c, hunk 1): \
             the hunk is shorter than its header says: its next line, \"2;\",",
        ),
        (
            "cut off",
            format!("{headers}\n---\n{}", &one[..one.len() - 4]).into(),
            "(\"numa: x\") is malformed at line 6 of its diffs (b/one.c, hunk 1): its last hunk is cut \
             off",
        ),
        (
            "out of the tree",
            one.replace("a/one.c", "a/../../one.c").into(),
            "names \"a/../../one.c\" at line 1, which is refused: it leads out of the tree by `..`",
        ),
        (
            "an absolute path",
            b"--- /etc/passwd\n+++ /etc/passwd\n@@ -1 +1 @@\n-x\n+y\n".to_vec(),
            "which is refused: it is an absolute path",
        ),
        (
            "a link",
            b"diff --git a/l b/l\nnew file mode 120000\n--- /dev/null\n+++ b/l\n@@ -0,0 +1 @@\n+x\n".to_vec(),
            "it makes a symbolic link or submodule",
        ),
        (
            "a part in two versions",
            (patch("[PATCH 1/2] a", "one.c") + &patch("[PATCH v2 2/2] b", "two.c")).into(),
            "two versions of a series are given: mail 1 of \"x.mbox\" (\"[PATCH 1/2] a\") is of v1, mail \
             2 of \"x.mbox\" (\"[PATCH v2 2/2] b\") of v2; leave one out",
        ),
        (
            "a part twice",
            (patch("[PATCH 1/2] a", "one.c")
                + &patch("[PATCH 2/2] b", "two.c")
                + &patch("[PATCH 2/2] b", "three.c"))
                .into(),
            "patch 2 of 2 is there twice, and they differ",
        ),
        (
            "two attachments",
            format!(
                "{headers}Content-Type: multipart/mixed; boundary=b\n\n--b\nContent-Type: text/x-patch; \
                 name=1.patch\n\n{one}\n--b\nContent-Type: text/x-patch; name=2.patch\n\n{}\n--b--\n",
                diff("two.c")
            )
            .into(),
            "it has several patches attached (1.patch, 2.patch); save each to a file of its own",
        ),
    ];
    for (what, text, expected) in cases {
        let said = desk.refused(text);
        assert!(said.contains(expected), "{what}: {said}");
        assert!(!said.contains('\n'), "{what}: {said}");
    }
}

#[test]
fn a_copy_of_a_mail_is_passed_over() {
    let desk = Desk::new();
    let one = patch("[PATCH 1/2] a", "one.c");
    desk.write(
        "x.mbox",
        [&one, &patch("[PATCH 2/2] b", "two.c"), &one]
            .map(String::as_str)
            .concat(),
    );
    let series = desk.read(&["x.mbox"]);
    assert_eq!(titles(&series), ["a", "b"]);
    assert!(
        series.notes[0].contains("is a copy of mail 1"),
        "{:?}",
        series.notes
    );
}

#[test]
fn a_reply_with_its_own_diff_is_used_only_where_there_is_no_patch() {
    let desk = Desk::new();
    let reply = mail(
        "Re: [PATCH 1/2] a",
        &format!("> quoted\nLike this?\n\n{}", diff("own.c")),
    );
    desk.write("reply.mbox", &reply);
    let series = desk.read(&["reply.mbox"]);
    assert!(String::from_utf8_lossy(&series.patches[0].bytes).contains("own.c"));
    assert!(
        series.notes[0].contains("its own diff is used"),
        "{:?}",
        series.notes
    );
    desk.write(
        "thread.mbox",
        patch("[PATCH 1/2] a", "one.c") + &reply + &patch("[PATCH 2/2] b", "two.c"),
    );
    let series = desk.read(&["thread.mbox"]);
    assert_eq!(titles(&series), ["a", "b"]);
    assert_eq!(
        series.notes[0]
            .split_once(": ")
            .unwrap()
            .1
            .split(" of ")
            .next()
            .unwrap(),
        "a reply with a diff"
    );
    desk.write(
        "replies.mbox",
        reply.clone() + &reply.replace("own.c", "other.c"),
    );
    assert!(
        desk.fails(&["replies.mbox"])
            .contains("several have diffs of their own")
    );
}

#[test]
fn binary_patches_renames_and_modes_are_taken() {
    let desk = Desk::new();
    let text = "diff --git a/x b/y\nsimilarity index 100%\nrename from x\nrename to y\n\
                diff --git a/s.sh b/s.sh\nold mode 100644\nnew mode 100755\n\
                diff --git a/b.o b/b.o\nnew file mode 100644\nindex \
                0000000000000000000000000000000000000000..f76dd238ade08917e6712764a16a22005a50573d\n\
                GIT binary patch\nliteral 1\nIcmZPo000310RR91\n\nliteral 0\nHcmV?d00001\n\n";
    desk.write("x.patch", text);
    assert_eq!(desk.read(&["x.patch"]).patches.len(), 1);
}

#[test]
fn a_quilt_series_gives_the_order() {
    let desk = Desk::new();
    desk.write("q/series", "# first\nz.patch\n\na.patch -p1 # why\n");
    desk.write("q/a.patch", diff("a.c"));
    desk.write("q/z.patch", diff("z.c"));
    desk.write("q/unused.patch", diff("u.c"));
    let names: Vec<String> = desk
        .read(&["q"])
        .patches
        .iter()
        .map(|patch| patch.name())
        .collect();
    assert_eq!(names, ["z.patch", "a.patch"]);
    desk.write("q/series", "z.patch -p0\n");
    assert!(
        desk.fails(&["q"])
            .contains("options that are not supported")
    );
    desk.write("empty/README", "x");
    assert!(
        desk.fails(&["empty"])
            .contains("it has no file that ends with .patch")
    );
}

#[test]
fn slips_and_addresses_get_a_hint() {
    let desk = Desk::new();
    desk.write("fix.patch", diff("one.c"));
    assert!(
        desk.fails(&["fix.pach"])
            .ends_with("; did you mean \"fix.patch\"?")
    );
    for word in ["https://lore.example.org/x", "20250424.1@example.org"] {
        assert!(
            desk.fails(&[word]).contains("`b4 am` makes an mbox"),
            "{word}"
        );
    }
    assert!(desk.fails(&["a...b"]).contains("three dots"));
}

#[test]
fn a_repository_around_the_cache_changes_nothing() {
    let desk = Desk::new();
    let git = |arguments: &[&str]| {
        let mut command = std::process::Command::new("git");
        command.args(arguments).current_dir(desk.folder.path());
        assert!(command.status().unwrap().success());
    };
    git(&["init", "--quiet"]);
    git(&["config", "mailinfo.scissors", "false"]);
    git(&["config", "i18n.commitEncoding", "ISO-8859-1"]);
    git(&["config", "am.keepcr", "false"]);
    desk.write(
        "x.mbox",
        format!(
            "Subject: Re: x\n\nno\n-- >8 --\nSubject: [PATCH] f\u{fc}r\n\n---\n{}",
            diff("one.c")
        ),
    );
    assert_eq!(titles(&desk.read(&["x.mbox"])), ["f\u{fc}r"]);
}

#[test]
fn a_subject_in_the_body_names_the_patch_and_the_header_its_part() {
    let desk = Desk::new();
    let body = format!(
        "From: B <b@example.org>\nSubject: numa: a longer name\n\nWhy.\n---\n{}",
        diff("one.c")
    );
    let two = patch("[PATCH v2 2/2] two", "two.c");
    for subject in [
        "[PATCH v2 1/2] short",
        "=?UTF-8?B?W1BBVENIIHYyIDEvMl0gZsO8cg==?=",
    ] {
        desk.write("x.mbox", two.clone() + &mail(subject, &body));
        let series = desk.read(&["x.mbox"]);
        assert_eq!(titles(&series), ["numa: a longer name", "two"], "{subject}");
    }
    // A reply whose `Re:` is encoded is one all the same.
    let reply = mail("=?UTF-8?B?UmU6IFtQQVRDSCAxLzJdIGbDvHI=?=", &body);
    desk.write(
        "x.mbox",
        patch("[PATCH 1/2] one", "one.c") + &patch("[PATCH 2/2] two", "two.c") + &reply,
    );
    let series = desk.read(&["x.mbox"]);
    assert_eq!(titles(&series), ["one", "two"]);
    assert!(
        series.notes[0].contains("(\"Re: [PATCH 1/2] f\u{fc}r\")"),
        "{:?}",
        series.notes
    );
}

#[test]
fn a_cover_letter_may_show_a_diff_to_the_version_before() {
    let desk = Desk::new();
    let cover = mail(
        "[PATCH v2 0/1] x",
        &format!("Text\n\nInterdiff against v1:\n{}", diff("one.c")),
    );
    desk.write("x.mbox", cover + &patch("[PATCH v2 1/1] one", "one.c"));
    let series = desk.read(&["x.mbox"]);
    assert_eq!(titles(&series), ["one"]);
    assert_eq!(series.title.as_deref(), Some("x"));
}

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
                prop_assert_eq!(error.class(), Class::Input, "{}", error);
                prop_assert!(!error.to_string().contains('\n'), "{}", error);
            }
        }
    }
}
