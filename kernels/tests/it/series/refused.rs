//! What is refused, and in which words.

use super::*;

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
fn a_number_that_cannot_be_read_is_named() {
    let desk = Desk::new();
    for number in ["1/n", "1.5/2"] {
        let said = desk
            .refused(patch(&format!("[PATCH {number}] a"), "a.c") + &patch("[PATCH 2/2] b", "b.c"));
        assert!(said.contains(&format!("has the number {number}")), "{said}");
    }
}

#[test]
fn colour_codes_and_word_diffs_are_named() {
    let desk = Desk::new();
    let coloured = diff("one.c").replace("diff --git", "\u{1b}[1mdiff --git");
    let said = desk.refused(coloured);
    assert!(
        said.contains("colour codes") && said.contains("--no-color"),
        "{said}"
    );
    let word = "diff --git a/f b/f\n--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\nint a;\nint [-b;-]{+c;+}\n";
    let said = desk.refused(word);
    assert!(said.contains("it is a word diff"), "{said}");
    // In a line that is added, such codes are content.
    desk.write(
        "x.mbox",
        diff("one.c").replace("return 2", "say(\"\u{1b}[0m\")"),
    );
    assert_eq!(desk.read(&["x.mbox"]).patches.len(), 1);
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
