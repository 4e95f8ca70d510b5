//! Series: what words mean. Real git takes the mails apart; nothing is built.

mod damage;
mod encodings;
mod refused;

use std::fs;

use numalab_kernels::series::{Series, SeriesError, read};
use numalab_kernels::spec::Direction;
use numalab_kernels::{Cache, ErrorKind};
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
        assert_eq!(error.kind(), ErrorKind::Input, "{error:?}");
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
            "3 mails ignored: 1 cover letter, 2 replies",
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
fn a_copy_of_a_mail_is_ignored() {
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

/// A copy from another list: its name is in the subject, and a footer below the diff.
#[test]
fn copies_of_one_mail_by_two_lists_are_one() {
    let desk = Desk::new();
    let footer = "\n_______________________________________________\na list\n";
    let [one, two] = ["one", "two"].map(|name| {
        let part = if name == "one" { 1 } else { 2 };
        patch(&format!("[PATCH {part}/2] {name}"), &format!("{name}.c"))
            .replace("Message-ID: <", &format!("Message-ID: <{name}"))
    });
    for copy in [
        one.replace("Subject: ", "Subject: [a list] "),
        one.replace("-- \n2.43.0\n", ""),
    ] {
        desk.write("x.mbox", [one.as_str(), &two, &copy, footer].concat());
        let series = desk.read(&["x.mbox"]);
        assert_eq!(titles(&series), ["one", "two"]);
        assert!(
            series.notes[0].contains("is a copy of mail 1"),
            "{:?}",
            series.notes
        );
    }
}

/// What a commit's message quotes is no part of the patch, and neither is what stands above
/// git's scissors.
#[test]
fn a_diff_above_the_patch_is_ignored_and_named() {
    let desk = Desk::new();
    let quoted = format!(
        "This did not help:\n\n{}\nso another place is changed.\n",
        diff("no.c")
    );
    let message = format!(
        "{quoted}\nSigned-off-by: A\n---\n one.c | 2 +-\n\n{}-- \n2.43\n",
        diff("one.c")
    );
    let scissors = format!(
        "{quoted}\n-- >8 --\nSubject: [PATCH] x\n\nWhy.\n{}",
        diff("one.c")
    );
    for (body, place) in [(message, "`---`"), (scissors, "scissors")] {
        desk.write("x.mbox", mail("[PATCH] x", &body));
        let series = desk.read(&["x.mbox"]);
        let bytes = String::from_utf8_lossy(&series.patches[0].bytes).into_owned();
        assert!(
            bytes.contains("b/one.c") && !bytes.contains("b/no.c"),
            "{bytes}"
        );
        let note = &series.notes[0];
        assert!(
            note.contains(&format!("a diff above its {place} line, of b/no.c")),
            "{note}"
        );
    }
}

#[test]
fn a_signed_mail_is_read() {
    let desk = Desk::new();
    let text = format!("Why.\n---\n{}-- \n2.43\n", diff("one.c"));
    desk.write(
        "x.mbox",
        format!(
            "From: A <a@b>\nSubject: [PATCH] x\nContent-Type: multipart/signed; \
             protocol=\"application/pgp-signature\"; boundary=\"out\"\n\n--out\n\
             Content-Type: multipart/mixed; boundary=\"in\"\n\n--in\nContent-Type: text/plain; \
             charset=UTF-8\nContent-Transfer-Encoding: base64\n\n{}\n--in--\n\n--out\n\
             Content-Type: application/pgp-signature; name=\"x.asc\"\n\n-----BEGIN PGP SIGNATURE-----\n\
             x\n--out--\n",
            encodings::base64(&text)
        ),
    );
    let series = desk.read(&["x.mbox"]);
    let bytes = String::from_utf8_lossy(&series.patches[0].bytes).into_owned();
    assert!(
        bytes.contains(&diff("one.c")) && !bytes.contains("PGP"),
        "{bytes}"
    );
}
