//! Patches: what applies, what is refused, and in which words.

use std::fs;

use numalab_kernels::ErrorKind;
use numalab_kernels::KernelError;
use numalab_kernels::patch::PatchError;
use numalab_kernels::spec::{Direction, KernelSpec};

use crate::bench::{Bench, Listener, change, compiled, fixture};

#[track_caller]
fn refused(bench: &Bench, wanted: &KernelSpec) -> String {
    let error = bench.get_or_build(wanted).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Input, "{error}");
    assert!(matches!(error, KernelError::Patch(_)), "{error:?}");
    error.to_string()
}

#[test]
fn files_come_go_and_change_and_the_tree_comes_back() {
    let bench = Bench::new();
    let base = bench.get_or_build(&bench.wanted("small")).unwrap();
    let before = listing(&bench.copy());
    let patch = "\
diff --git a/sub/new.h b/sub/new.h
new file mode 100755
--- /dev/null
+++ b/sub/new.h
@@ -0,0 +1 @@
+/* new */
diff --git a/third.c b/third.c
deleted file mode 100644
--- a/third.c
+++ /dev/null
@@ -1,4 +0,0 @@
-int third(void)
-{
-\treturn 3;
-}
diff --git a/second.c b/fourth.c
similarity index 100%
rename from second.c
rename to fourth.c
";
    let patched = bench
        .get_or_build(&bench.patched(patch, Direction::Apply))
        .unwrap();
    let copy = bench.copy();
    assert!(copy.join("sub/new.h").is_file());
    assert!(copy.join("fourth.c").is_file());
    assert!(!copy.join("third.c").exists() && !copy.join("second.c").exists());
    assert_eq!(compiled(&patched), ["fourth.o"]);
    assert_ne!(patched.image_digest, base.image_digest);

    fs::remove_dir_all(base.image.parent().unwrap()).unwrap();
    let back = bench.get_or_build(&bench.wanted("small")).unwrap();
    assert_eq!(listing(&copy), before);
    assert_eq!(back.image_digest, base.image_digest);
}

fn listing(path: &std::path::Path) -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    for item in fs::read_dir(path).unwrap() {
        let path = item.unwrap().path();
        let name = path.to_string_lossy().into_owned();
        if path.is_dir() {
            found.push((name, Vec::new()));
            found.extend(listing(&path));
        } else {
            found.push((name, fs::read(&path).unwrap()));
        }
    }
    found.sort();
    found
}

#[test]
fn the_users_directory_is_never_written_to() {
    let bench = Bench::new();
    let before = listing(&bench.source());
    bench
        .get_or_build(&bench.patched(&change(), Direction::Apply))
        .unwrap();
    assert_eq!(listing(&bench.source()), before);
}

#[test]
fn a_patch_can_be_taken_back() {
    let bench = Bench::new();
    let wanted = bench.wanted("small");
    let base = bench.get_or_build(&wanted).unwrap();
    let text = fs::read_to_string(bench.source().join("second.c")).unwrap();
    fs::write(bench.source().join("second.c"), text.replace("+ 1", "+ 2")).unwrap();
    let reverted = bench
        .get_or_build(&bench.patched(&change(), Direction::Revert))
        .unwrap();
    assert_eq!(reverted.image_digest, base.image_digest);
}

#[test]
fn a_patch_that_is_there_already_is_told_as_such() {
    let bench = Bench::new();
    let text = fs::read_to_string(bench.source().join("second.c")).unwrap();
    fs::write(bench.source().join("second.c"), text.replace("+ 1", "+ 2")).unwrap();
    assert_eq!(
        refused(&bench, &bench.patched(&change(), Direction::Apply)),
        "the patch \"some.patch\" cannot be applied: second.c, hunk 1 (@@ -4,3 +4,3 @@), does not \
         match this source; it is already applied (reverting it would work)"
    );
    let crlf = change().replace('\n', "\r\n");
    let said = refused(&bench, &bench.patched(&crlf, Direction::Apply));
    assert!(said.contains("it is already applied"), "{said}");
}

#[test]
fn a_patch_that_cannot_be_taken_back_is_told_as_such() {
    let bench = Bench::new();
    assert_eq!(
        refused(&bench, &bench.patched(&change(), Direction::Revert)),
        "the patch \"some.patch\" cannot be reverted: second.c, hunk 1 (@@ -4,3 +4,3 @@), does \
         not match this source; it is not applied (applying it would work)"
    );
}

#[test]
fn the_second_of_two_patches_fails_by_its_own_hunk_and_changes_nothing() {
    let bench = Bench::new();
    let base = bench.get_or_build(&bench.wanted("small")).unwrap();
    let mut wanted = bench.patched(&change(), Direction::Apply);
    let bad = "--- a/third.c\n+++ b/third.c\n@@ -1,2 +1,2 @@\n-int third(void)\n+int third(int x)\n {\n\
               @@ -3,2 +3,2 @@ int third(void)\n-\treturn 4;\n+\treturn 5;\n }\n";
    let second = bench.patched(bad, Direction::Apply);
    let (numalab_kernels::spec::Origin::Recipe(into), numalab_kernels::spec::Origin::Recipe(from)) =
        (&mut wanted.origin, second.origin)
    else {
        panic!("both are built");
    };
    into.patches.extend(from.patches);
    into.patches[1].path = "second.patch".into();
    let said = refused(&bench, &wanted);
    assert_eq!(
        said,
        "the patch \"second.patch\" cannot be applied: third.c, hunk 2 (@@ -3,2 +3,2 @@ int \
         third(void)), does not match this source; it may be meant for another version"
    );
    // Nothing was half applied.
    let copy = fs::read(bench.copy().join("second.c")).unwrap();
    assert_eq!(copy, fs::read(fixture().join("second.c")).unwrap());
    assert_eq!(
        bench.get_or_build(&bench.wanted("small")).unwrap().key,
        base.key
    );
}

#[test]
fn patches_build_on_each_other() {
    let bench = Bench::new();
    bench.write("one.patch", &change());
    bench.write(
        "two.patch",
        &change()
            .replace("+ 2;", "+ 3;")
            .replace("-\treturn value + 1;", "-\treturn value + 2;"),
    );
    let kernel = bench
        .get_or_build(&bench.wanted("small+one.patch+two.patch"))
        .unwrap();
    assert_eq!(kernel.name, "small+one+two");
    let copy = fs::read_to_string(bench.copy().join("second.c")).unwrap();
    assert!(copy.contains("value + 3"), "{copy}");
}

#[test]
fn what_leads_out_of_the_tree_is_refused() {
    let bench = Bench::new();
    let outside = bench.path().join("outside");
    fs::create_dir(&outside).unwrap();
    std::os::unix::fs::symlink(&outside, bench.source().join("link")).unwrap();
    let cases = [
        ("a/../../x", "leads out of the tree"),
        ("/etc/passwd", "absolute"),
        ("a/.git/hooks/post-checkout", ".git"),
        ("a/sub/.GIT/config", ".git"),
        ("a/link/x", "symbolic link"),
        ("a", "nothing is left"),
    ];
    for (name, why) in cases {
        let new = name.replacen("a/", "b/", 1);
        let text = format!("--- /dev/null\n+++ {new}\n@@ -0,0 +1 @@\n+x\n");
        let said = refused(&bench, &bench.patched(&text, Direction::Apply));
        assert!(
            said.contains(why) && said.contains("at line 1"),
            "{name}: {said}"
        );
    }
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
}

#[test]
fn forms_that_people_send() {
    let bench = Bench::new();
    let expected = bench
        .get_or_build(&bench.patched(&change(), Direction::Apply))
        .unwrap()
        .image_digest;
    let crlf = change().replace('\n', "\r\n");
    let mail = format!(
        "From 0123 Mon Sep 17 00:00:00 2001\nFrom: A <a@b>\nSubject: [PATCH 1/1] x\n\nWhy.\n\n\
         > --- a/quoted\n> +++ b/quoted\n---\n second.c | 2 +-\n\n{}-- \n2.39.5\n\n",
        change()
    );
    let plain = change().split_once('\n').unwrap().1.to_owned();
    let noprefix = change()
        .replace("a/second.c", "second.c")
        .replace("b/second.c", "second.c");
    for (what, text) in [
        ("CRLF", crlf),
        ("mail", mail),
        ("plain", plain),
        ("no prefix", noprefix),
    ] {
        let kernel = bench
            .get_or_build(&bench.patched(&text, Direction::Apply))
            .unwrap_or_else(|error| panic!("{what}: {error}"));
        assert_eq!(kernel.image_digest, expected, "{what}");
    }
}

#[test]
fn crlf_and_shifted_hunks_are_told() {
    let bench = Bench::new();
    let text = change()
        .replace('\n', "\r\n")
        .replace("@@ -4,3 +4,3 @@", "@@ -2,3 +2,3 @@");
    // Also when the kernel is in the store already.
    for turn in ["built", "found"] {
        let listener = Listener::default();
        bench
            .ensure_told(&bench.patched(&text, Direction::Apply), &listener)
            .unwrap();
        let told = listener.text();
        for words in [
            "warning: some.patch has CRLF line ends",
            "offset 2 lines); look whether that is the place",
        ] {
            assert!(told.contains(words), "{turn}: {told}");
        }
    }
}

#[test]
fn what_holds_no_diff_is_told_and_a_cover_letter_is_passed_over() {
    let bench = Bench::new();
    for (text, why) in [
        ("", "the file is empty"),
        ("int x;\n", "neither `diff --git`"),
        (
            "Content-Transfer-Encoding: base64\n\nZGlmZg==\n",
            "encoded mail",
        ),
    ] {
        let said = refused(&bench, &bench.patched(text, Direction::Apply));
        assert!(said.contains(why), "{said}");
    }
    let listener = Listener::default();
    let cover = bench.patched(
        "Subject: [PATCH v2 0/3] numa: x\n\nText\n",
        Direction::Apply,
    );
    bench.ensure_told(&cover, &listener).unwrap();
    assert!(
        listener.text().contains("cover letter"),
        "{}",
        listener.text()
    );
}

#[test]
fn a_file_that_is_not_there_is_named() {
    let bench = Bench::new();
    let text = change().replace("second.c", "kernel/sched/fair.c");
    assert_eq!(
        refused(&bench, &bench.patched(&text, Direction::Apply)),
        "the patch \"some.patch\" changes \"kernel/sched/fair.c\", which this source does not have"
    );
}

#[test]
fn git_works_whatever_repository_and_settings_lie_around() {
    let bench = Bench::new();
    // The cache inside of a repository: git would take the scratch folder for a part
    // of it and pass over the patch's files in silence.
    let git = |arguments: &[&str]| {
        let output = std::process::Command::new("git")
            .args(arguments)
            .current_dir(bench.path())
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
    };
    git(&["init", "--quiet"]);
    git(&["config", "apply.whitespace", "error-all"]);
    let text = change().replace("value + 2;", "value + 2; ");
    let kernel = bench
        .get_or_build(&bench.patched(&text, Direction::Apply))
        .unwrap();
    assert_eq!(compiled(&kernel).len(), 3);
    let copy = fs::read_to_string(bench.copy().join("second.c")).unwrap();
    assert!(copy.contains("value + 2; \n"), "{copy}");
}

#[test]
fn a_cut_off_patch_is_told_with_its_line() {
    let bench = Bench::new();
    let text = change();
    let cut = &text[..text.len() - 20];
    let error = bench
        .get_or_build(&bench.patched(cut.trim_end_matches(|c| c != '\n'), Direction::Apply))
        .unwrap_err();
    assert!(
        matches!(&error, KernelError::Patch(PatchError::Malformed { .. })),
        "{error:?}"
    );
    assert_eq!(
        error.to_string(),
        "the patch \"some.patch\" is malformed at line 4 (b/second.c, hunk 1): its last hunk is cut \
         off"
    );
}

#[test]
fn a_patch_that_does_not_apply_names_the_commit_that_it_was_made_on() {
    let bench = Bench::new();
    let base = "0123456789abcdef0123456789abcdef01234567";
    let mail = format!(
        "From: A <a@b>\nSubject: [PATCH 2/3] two: for another\n\n---\n{}\nbase-commit: {base}\n",
        change().replace("value + 1", "value + 7")
    );
    bench.write("x.mbox", &mail);
    let said = refused(&bench, &bench.wanted("small+x.mbox"));
    let (start, rest) = said.split_once(" (patch 2/3, ").unwrap();
    assert!(start.ends_with("x.mbox\""), "{said}");
    assert_eq!(
        rest,
        format!(
            "\"two: for another\") cannot be applied: second.c, hunk 1 (@@ -4,3 +4,3 @@), does not \
             match this source; it may be meant for another version; it was made on commit {base}"
        )
    );
}

#[test]
fn white_space_that_a_mail_program_changed_is_told() {
    let bench = Bench::new();
    let text = change().replace('\t', "        ");
    let said = refused(&bench, &bench.patched(&text, Direction::Apply));
    assert!(said.contains("; only white space differs"), "{said}");
}

#[test]
fn a_series_is_applied_part_after_part_and_taken_back_from_its_end() {
    let bench = Bench::new();
    let second = change()
        .replace("+ 2;", "+ 3;")
        .replace("-\treturn value + 1;", "-\treturn value + 2;");
    let part = |number: &str, diff: &str| {
        format!(
            "From 0123456789012345678901234567890123456789 Mon Sep 17 00:00:00 2001\nFrom: A <a@b>\n\
             Subject: [PATCH {number}] x\n\n---\n{diff}-- \n2.43\n\n"
        )
    };
    bench.write(
        "two.mbox",
        &(part("2/2", &second) + &part("1/2", &change())),
    );
    let listener = Listener::default();
    let wanted = bench.wanted("small+two.mbox");
    let kernel = bench.ensure_told(&wanted, &listener).unwrap();
    assert_eq!(kernel.name, "small+two");
    let told = listener.text();
    assert!(
        told.contains("note: the patches are not in the order"),
        "{told}"
    );
    let copy = fs::read_to_string(bench.copy().join("second.c")).unwrap();
    assert!(copy.contains("value + 3"), "{copy}");
    // The same series on top, taken back, is the base.
    let back = bench
        .get_or_build(&bench.wanted("small+two.mbox+revert:two.mbox"))
        .unwrap();
    assert_eq!(
        back.image_digest,
        bench
            .get_or_build(&bench.wanted("small"))
            .unwrap()
            .image_digest
    );
}

#[test]
fn two_changes_of_one_file_in_one_patch_are_both_made() {
    let bench = Bench::new();
    let second = change()
        .replace("+ 2;", "+ 3;")
        .replace("-\treturn value + 1;", "-\treturn value + 2;");
    let patch = bench.patched(&(change() + &second), Direction::Apply);
    bench.get_or_build(&patch).unwrap();
    let copy = fs::read_to_string(bench.copy().join("second.c")).unwrap();
    assert!(copy.contains("value + 3"), "{copy}");
}

#[test]
fn a_file_that_is_left_as_it_was_is_told() {
    let bench = Bench::new();
    // A hunk that changes nothing: git takes it and says nothing.
    let nothing =
        "--- a/third.c\n+++ b/third.c\n@@ -1,2 +1,2 @@\n-int third(void)\n+int third(void)\n {\n";
    let said = refused(
        &bench,
        &bench.patched(&(change() + nothing), Direction::Apply),
    );
    assert!(
        said.contains("it succeeded and left third.c as it was"),
        "{said}"
    );
}

/// `diff -N` writes the epoch for a file that does not exist, in the writer's time zone; some
/// archives give that time to every file.
#[test]
fn times_of_the_epoch_say_what_their_hunks_say() {
    for time in [
        "1970-01-01 00:00:00.000000000 +0000",
        "1970-01-01 01:00:00.000000000 +0100",
        "1969-12-31 19:00:00.000000000 -0500",
    ] {
        let bench = Bench::new();
        let now = "2024-12-02 10:00:00.000000000 +0000";
        let patch = format!(
            "--- old/third.c\t{now}\n+++ new/third.c\t{time}\n@@ -1,4 +0,0 @@\n-int third(void)\n-{{\n\
             -\treturn 3;\n-}}\n--- old/fourth.c\t{time}\n+++ new/fourth.c\t{now}\n@@ -0,0 +1 @@\n\
             +int fourth;\n--- old/second.c\t{time}\n+++ new/second.c\t{time}\n@@ -3,4 +3,4 @@\n \t/* one */\n \
             \t/* two */\n-\treturn value + 1;\n+\treturn value + 2;\n }}\n"
        );
        bench
            .get_or_build(&bench.patched(&patch, Direction::Apply))
            .unwrap_or_else(|error| panic!("{time}: {error}"));
        let copy = bench.copy();
        assert!(!copy.join("third.c").exists() && copy.join("fourth.c").exists());
        let second = fs::read_to_string(copy.join("second.c")).unwrap();
        assert!(second.contains("value + 2"), "{second}");
    }
}

#[test]
fn a_hunk_without_context_is_refused_unless_it_replaces_the_file() {
    let bench = Bench::new();
    let insert = "--- a/second.c\n+++ b/second.c\n@@ -4,0 +5 @@\n+\tvalue++;\n";
    let change =
        "--- a/second.c\n+++ b/second.c\n@@ -5 +5 @@\n-\treturn value + 1;\n+\treturn 2;\n";
    for patch in [insert, change] {
        let said = refused(&bench, &bench.patched(patch, Direction::Apply));
        assert!(said.contains("no lines of context"), "{said}");
        assert!(said.contains("git diff -U3"), "{said}");
    }
    let whole = "--- a/third.c\n+++ b/third.c\n@@ -1,4 +1 @@\n-int third(void)\n-{\n-\treturn 3;\n-}\n\
                 +int third(void) { return 4; }\n";
    bench
        .get_or_build(&bench.patched(whole, Direction::Apply))
        .unwrap();
}
