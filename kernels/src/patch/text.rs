//! The text of a patch: which files it touches, and by which hunks.
//!
//! Only headers are read, hunks are counted over; what they say is git's business.

use crate::patch::PatchError;
use crate::spec::Patch;

/// What a patch does to one file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct FileChange {
    /// The name before, as in the patch (with its prefix); `None` if it is created.
    pub(crate) old: Option<String>,
    /// The name after; `None` if it is deleted.
    pub(crate) new: Option<String>,
    /// The line in the patch at which this begins, from 1.
    pub(crate) line: usize,
    /// The hunks' headers, with the line in the old and new file at which each begins.
    pub(crate) hunks: Vec<Hunk>,
    /// Whether it is a rename or a copy, whose names have no prefix.
    pub(crate) bare: bool,
    /// Whether it has `---` and `+++` lines, which promise a hunk.
    pub(crate) promised: bool,
}

/// One hunk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Hunk {
    pub(crate) old_line: u64,
    pub(crate) new_line: u64,
    /// Its header line, shortened.
    pub(crate) header: String,
}

/// Finds the diffs in a patch file; mail headers, messages, quotes and signatures
/// around them are passed over.
pub(crate) fn changes(patch: &Patch) -> Result<Vec<FileChange>, PatchError> {
    let text = String::from_utf8_lossy(&patch.bytes);
    let mut reader = Reader {
        patch,
        changes: Vec::new(),
        open: false,
    };
    let mut lines = text.lines().enumerate().peekable();
    while let Some((index, line)) = lines.next() {
        let number = index + 1;
        if let Some(names) = line.strip_prefix("diff --git ") {
            reader.end()?;
            reader.begin(number);
            if let Some((old, new)) = both_names(names) {
                let change = reader.last();
                change.old = Some(old);
                change.new = Some(new);
            }
            reader.open = true;
        } else if let Some(old) = line.strip_prefix("--- ")
            && lines
                .peek()
                .is_some_and(|(_, next)| next.starts_with("+++ "))
        {
            let Some((_, new)) = lines.next() else { break };
            if !reader.open
                || reader
                    .changes
                    .last()
                    .is_some_and(|last| last.promised || !last.hunks.is_empty())
            {
                reader.end()?;
                reader.begin(number);
            }
            reader.open = true;
            let change = reader.last();
            change.promised = true;
            if !change.bare {
                change.old = name(old);
                change.new = name(&new[4..]);
            }
        } else if line.starts_with("diff --cc ")
            || line.starts_with("diff --combined ")
            || (line.starts_with("@@@ -") && reader.open)
        {
            return Err(reader.malformed(
                number,
                "it is a merge's combined diff, which cannot be applied; make it against one parent",
            ));
        } else if line.starts_with("@@ -") && !reader.open && hunk(line).is_some() {
            return Err(reader.malformed(
                number,
                "a hunk stands where no file is named before it (`---` and `+++` lines)",
            ));
        } else if line.starts_with("@@ -") && reader.open {
            let Some((hunk, mut old, mut new)) = hunk(line) else {
                return Err(reader.malformed(number, "a hunk's header cannot be read"));
            };
            reader.last().hunks.push(hunk);
            while old > 0 || new > 0 {
                let Some((index, line)) = lines.next() else {
                    return Err(reader.malformed(number, "its last hunk is cut off"));
                };
                match line.as_bytes().first() {
                    Some(b' ') | None => {
                        old = old.saturating_sub(1);
                        new = new.saturating_sub(1);
                    }
                    Some(b'-') => old = old.saturating_sub(1),
                    Some(b'+') => new = new.saturating_sub(1),
                    Some(b'\\') => {}
                    Some(_) => {
                        let why = format!(
                            "the hunk is shorter than its header says: its next line, {:?}, \
                             begins with neither a space, `+` nor `-` (a mail program may have \
                             wrapped a long line)",
                            line.chars().take(60).collect::<String>()
                        );
                        return Err(reader.malformed(index + 1, &why));
                    }
                }
            }
        } else if reader.open {
            reader.extended(number, line)?;
        }
    }
    reader.end()?;
    Ok(reader.changes)
}

struct Reader<'a> {
    patch: &'a Patch,
    changes: Vec<FileChange>,
    /// Whether the lines belong to a diff's header.
    open: bool,
}

impl Reader<'_> {
    fn begin(&mut self, line: usize) {
        self.changes.push(FileChange {
            line,
            ..FileChange::default()
        });
    }

    fn last(&mut self) -> &mut FileChange {
        if self.changes.is_empty() {
            self.begin(1);
        }
        let index = self.changes.len() - 1;
        &mut self.changes[index]
    }

    /// Refuses a file that is named and not changed: its hunks are lost.
    fn end(&self) -> Result<(), PatchError> {
        match self.changes.last() {
            Some(last) if last.promised && last.hunks.is_empty() && !last.bare => {
                Err(self.malformed(last.line, "its file is named, and no hunk follows"))
            }
            _ => Ok(()),
        }
    }

    fn malformed(&self, line: usize, why: &str) -> PatchError {
        let place = match self.changes.last().filter(|_| self.open) {
            Some(change) => {
                let file = change.new.as_deref().or(change.old.as_deref());
                let hunk = match change.hunks.len() {
                    0 => String::new(),
                    count => format!(", hunk {count}"),
                };
                let file = file.unwrap_or("a file without a name");
                format!(" ({}{hunk})", file.escape_debug())
            }
            None => String::new(),
        };
        PatchError::Malformed {
            patch: self.patch.label(),
            at: format!("{}{place}", self.patch.line(line)),
            why: why.to_owned(),
        }
    }

    /// Reads a line of git's extended header, or ends the diff.
    fn extended(&mut self, number: usize, line: &str) -> Result<(), PatchError> {
        if line == "-- " || line.starts_with("From ") {
            self.open = false;
            return Ok(());
        }
        let (key, value) = line.split_at(
            line.find(|letter: char| letter.is_ascii_digit() || letter == '"' || letter == '/')
                .unwrap_or(line.len()),
        );
        let renamed = |prefix: &str| line.strip_prefix(prefix).map(unquoted);
        if let Some(old) = renamed("rename from ").or_else(|| renamed("copy from ")) {
            let change = self.last();
            change.old = Some(old);
            change.bare = true;
        } else if let Some(new) = renamed("rename to ").or_else(|| renamed("copy to ")) {
            let change = self.last();
            change.new = Some(new);
            change.bare = true;
        } else if matches!(key, "new file mode " | "new mode ") {
            if !value.starts_with("100") {
                return Err(self.malformed(
                    number,
                    "it makes a symbolic link or submodule, which is not supported",
                ));
            }
            if key == "new file mode " {
                self.last().old = None;
            }
        } else if key == "deleted file mode " {
            self.last().new = None;
        } else if line.starts_with("Binary files ") {
            return Err(self.malformed(
                number,
                "it changes a binary file without saying how: make it with `git diff --binary`",
            ));
        }
        Ok(())
    }
}

/// A name in a `---` or `+++` line; `None` for `/dev/null`.
fn name(text: &str) -> Option<String> {
    // Plain diffs have the time after a tab.
    let text = if text.starts_with('"') {
        text
    } else {
        text.split('\t').next().unwrap_or(text)
    };
    let name = unquoted(text.trim_end_matches(['\r', ' ']));
    (name != "/dev/null").then_some(name)
}

/// The two names of a `diff --git` line, if they are the same but for the prefix:
/// then, and only then, can they be told apart when they contain spaces.
fn both_names(text: &str) -> Option<(String, String)> {
    let text = text.trim_end_matches('\r');
    if let Some(inner) = text.strip_prefix('"') {
        let end = inner.find("\" \"")? + 2;
        return Some((unquoted(&text[..end]), unquoted(&text[end + 1..])));
    }
    let half = text.len() / 2;
    if text.len() % 2 == 1 && text.is_char_boundary(half) && text.as_bytes()[half] == b' ' {
        let (old, new) = (&text[..half], &text[half + 1..]);
        let bare = |name: &str| name.split_once('/').map(|(_, rest)| rest.to_owned());
        if old == new || bare(old) == bare(new) {
            return Some((old.to_owned(), new.to_owned()));
        }
    }
    let (old, new) = text.split_once(' ')?;
    Some((old.to_owned(), new.to_owned()))
}

/// Undoes git's quoting of a name (C escapes in double quotes).
fn unquoted(text: &str) -> String {
    let Some(inner) = text
        .trim_end_matches('\r')
        .strip_prefix('"')
        .and_then(|text| text.strip_suffix('"'))
    else {
        return text.trim_end_matches('\r').to_owned();
    };
    let mut bytes = Vec::new();
    let mut rest = inner.bytes().peekable();
    while let Some(byte) = rest.next() {
        if byte != b'\\' {
            bytes.push(byte);
            continue;
        }
        match rest.next() {
            Some(b'n') => bytes.push(b'\n'),
            Some(b't') => bytes.push(b'\t'),
            Some(digit @ b'0'..=b'7') => {
                let mut value = u32::from(digit - b'0');
                for _ in 0..2 {
                    if let Some(digit @ b'0'..=b'7') = rest.peek() {
                        value = value * 8 + u32::from(digit - b'0');
                        rest.next();
                    }
                }
                bytes.push(u8::try_from(value & 0xff).unwrap_or(b'?'));
            }
            Some(other) => bytes.push(other),
            None => bytes.push(b'\\'),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Reads `@@ -l[,s] +l[,s] @@`; the hunk and its two sizes.
pub(super) fn hunk(line: &str) -> Option<(Hunk, u64, u64)> {
    let range = |text: &str| -> Option<(u64, u64)> {
        match text.split_once(',') {
            Some((line, size)) => Some((line.parse().ok()?, size.parse().ok()?)),
            None => Some((text.parse().ok()?, 1)),
        }
    };
    let rest = line.strip_prefix("@@ -")?;
    let (old, rest) = rest.split_once(" +")?;
    let (new, _) = rest.split_once(" @@")?;
    let ((old_line, old), (new_line, new)) = (range(old)?, range(new)?);
    let hunk = Hunk {
        old_line,
        new_line,
        // It is shown, and comes from anywhere.
        header: line
            .trim_end()
            .chars()
            .map(|letter| if letter.is_control() { ' ' } else { letter })
            .take(100)
            .collect(),
    };
    Some((hunk, old, new))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::Direction;

    fn read(text: &str) -> Result<Vec<FileChange>, PatchError> {
        changes(&Patch::new(
            "some.patch",
            text.as_bytes().to_vec(),
            Direction::Apply,
        ))
    }

    fn names(text: &str) -> Vec<(Option<String>, Option<String>)> {
        read(text)
            .unwrap()
            .into_iter()
            .map(|change| (change.old, change.new))
            .collect()
    }

    fn some(name: &str) -> Option<String> {
        Some(name.to_owned())
    }

    #[test]
    fn forms_of_diffs() {
        let cases = [
            (
                "a mail",
                "From x\n--- \n> --- a/no\n> +++ b/no\n---\n f | 2\n\ndiff --git a/f b/f\nindex 1..2 100644\n--- a/f\n+++ b/f\n@@ -1 +1 @@\n-x\n+y\n-- \n2.39\n",
                vec![(some("a/f"), some("b/f"))],
            ),
            (
                "no git",
                "--- linux.orig/f\t2024-01-01 00:00\n+++ linux/f\t2024-01-02\n@@ -1 +1 @@\n-x\n+y\n",
                vec![(some("linux.orig/f"), some("linux/f"))],
            ),
            (
                "two plain ones, and a hunk that looks like a header",
                "--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n--- a/x\n+++ b/x\n x\n--- a/g\n+++ b/g\n@@ -1 +1 @@\n-x\n+y\n",
                vec![(some("a/f"), some("b/f")), (some("a/g"), some("b/g"))],
            ),
            (
                "created and deleted",
                "diff --git a/f b/f\nnew file mode 100644\n--- /dev/null\n+++ b/f\n@@ -0,0 +1 @@\n+y\ndiff --git a/g b/g\ndeleted file mode 100644\n--- a/g\n+++ /dev/null\n@@ -1 +0,0 @@\n-y\n",
                vec![(None, some("b/f")), (some("a/g"), None)],
            ),
            (
                "empty created",
                "diff --git a/f b/f\nnew file mode 100644\nindex 000..e69\n",
                vec![(None, some("b/f"))],
            ),
            (
                "renamed",
                "diff --git a/f b/g h\nsimilarity index 100%\nrename from f\nrename to g h\n",
                vec![(some("f"), some("g h"))],
            ),
            (
                "quoted",
                "--- \"a/\\303\\244\"\n+++ \"b/\\303\\244\"\n@@ -1 +1 @@\n-x\n+y\n",
                vec![(some("a/ä"), some("b/ä"))],
            ),
            (
                "nothing",
                "Subject: [PATCH 0/3] a cover letter\n\n f | 2 +-\n",
                vec![],
            ),
        ];
        for (what, text, expected) in cases {
            assert_eq!(names(text), expected, "{what}");
        }
    }

    #[test]
    fn what_is_cut_off_is_told_with_its_line() {
        let error = read("--- a/f\n+++ b/f\n@@ -1,3 +1,3 @@\n-x\n").unwrap_err();
        assert_eq!(
            error.to_string(),
            "the patch \"some.patch\" is malformed at line 3 (b/f, hunk 1): its last hunk is cut off"
        );
    }

    #[test]
    fn what_git_would_pass_over_in_silence_is_told() {
        let cases = [
            (
                "--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n-x\n+y\nwrapped\n",
                "line 6 (b/f, hunk 1): the hunk is shorter than its header says: its next line, \
                 \"wrapped\",",
            ),
            (
                "--- a/f\n+++ b/f\n--- a/g\n+++ b/g\n@@ -1 +1 @@\n-x\n+y\n",
                "line 1 (b/f): its file is named, and no hunk follows",
            ),
            (
                "diff --git a/f b/f\n--- a/f\n+++ b/f\n",
                "line 1 (b/f): its file is named",
            ),
            (
                "--- a/f\n+++ \"b/\\n\"\n@@ -1,2 +1,2 @@ \x1b[31m\n",
                "line 3 (b/\\n, hunk 1): its last hunk is cut off",
            ),
            (
                "text\n@@ -1 +1 @@\n-x\n+y\n",
                "line 2: a hunk stands where no file",
            ),
            (
                "--- a/f\n+++ b/f\n@@ -1 +1 @@\n-x\n+y\n-- \n2.43\n@@ -7 +7 @@\n-x\n+y\n",
                "line 8: a hunk stands where no file",
            ),
            (
                "diff --cc f\nindex 1,2..3\n",
                "line 1: it is a merge's combined diff",
            ),
            (
                "--- a/f\n+++ b/f\n@@ -x +1 @@\n",
                "line 3 (b/f): a hunk's header cannot be read",
            ),
        ];
        for (text, expected) in cases {
            let said = read(text).unwrap_err().to_string();
            assert!(said.contains(expected), "{text:?}: {said}");
        }
    }

    #[test]
    fn a_link_is_refused() {
        let error = read("diff --git a/f b/f\nnew file mode 120000\n").unwrap_err();
        assert!(error.to_string().contains("symbolic link"), "{error}");
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_answered(text in "(diff --git |--- |\\+\\+\\+ |@@ -1,2 \\+1 @@|rename from |new file mode |\"|[ab/\\\\ 0-9]|\n){0,40}") {
            let _ = read(&text);
        }
    }
}
