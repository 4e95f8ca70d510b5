//! The one reader of unified diffs: which files a patch changes, and by which hunks.
//!
//! Headers are understood, hunks are counted; whether they apply is for git to decide.

use crate::patch::PatchError;
use crate::spec::Patch;

/// What a patch does to one file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct FileDiff {
    /// The name before, as in the patch (with its prefix); `None` if it is created.
    pub(crate) old: Option<String>,
    /// The name after; `None` if it is deleted.
    pub(crate) new: Option<String>,
    /// The line in the patch at which it begins, from 1.
    pub(crate) line: usize,
    /// The line in the patch after its last hunk, from 1; its own where it has no hunks.
    pub(crate) end: usize,
    pub(crate) hunks: Vec<Hunk>,
    /// Whether it is a rename or a copy, whose names have no prefix.
    pub(crate) bare: bool,
    /// The line of its `---`, which promises a hunk.
    pub(crate) promised: Option<usize>,
    /// Whether the time of the old and new file is the epoch: `diff -N` writes it for a file
    /// that does not exist.
    epoch: (bool, bool),
}

/// One hunk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Hunk {
    /// The first line in the old file and the number of lines.
    pub(crate) old: (u64, u64),
    /// The same in the new file.
    pub(crate) new: (u64, u64),
    /// Whether it has lines of context.
    pub(crate) context: bool,
    /// Its header line, shortened.
    pub(crate) header: String,
}

/// Reads the diffs in a patch file; text around them, such as a mail's, is ignored.
pub(crate) fn read(patch: &Patch) -> Result<Vec<FileDiff>, PatchError> {
    let text = String::from_utf8_lossy(&patch.bytes);
    let mut reader = Reader {
        patch,
        diffs: Vec::new(),
        open: false,
        lines: text.lines().collect(),
        next: 0,
    };
    while let Some(line) = reader.take() {
        reader.line(line)?;
    }
    reader.end()?;
    for diff in &mut reader.diffs {
        diff.resolve_epoch();
    }
    Ok(reader.diffs)
}

impl FileDiff {
    /// Of a file whose time is the epoch, the hunks decide whether it exists: some archives
    /// give all their files that time.
    fn resolve_epoch(&mut self) {
        if let [hunk] = &self.hunks[..] {
            if self.epoch.0 && hunk.old == (0, 0) {
                self.old = None;
            }
            if self.epoch.1 && hunk.new == (0, 0) {
                self.new = None;
            }
        }
    }

    /// Its `---` and `+++` lines without times, which git would interpret in its own way.
    /// `None` for what git made itself.
    pub(crate) fn plain_header(&self) -> Option<(usize, [String; 2])> {
        if self.epoch == (false, false) {
            return None;
        }
        let name = |name: &Option<String>| match name {
            // Without the tab, a name would end at its first space.
            Some(name) => format!("{name}\t"),
            None => "/dev/null".to_owned(),
        };
        let lines = [
            format!("--- {}", name(&self.old)),
            format!("+++ {}", name(&self.new)),
        ];
        Some((self.promised?, lines))
    }
}

struct Reader<'a> {
    patch: &'a Patch,
    diffs: Vec<FileDiff>,
    /// Whether the lines belong to a diff's header.
    open: bool,
    lines: Vec<&'a str>,
    /// How many lines were read, which is the number of the last one.
    next: usize,
}

impl<'a> Reader<'a> {
    fn take(&mut self) -> Option<&'a str> {
        let line = self.lines.get(self.next)?;
        self.next += 1;
        Some(line)
    }

    fn begin(&mut self) -> Result<(), PatchError> {
        self.end()?;
        self.open = true;
        self.diffs.push(FileDiff {
            line: self.next,
            end: self.next,
            ..FileDiff::default()
        });
        Ok(())
    }

    fn last(&mut self) -> &mut FileDiff {
        if self.diffs.is_empty() {
            self.diffs.push(FileDiff::default());
        }
        let index = self.diffs.len() - 1;
        &mut self.diffs[index]
    }

    fn line(&mut self, line: &str) -> Result<(), PatchError> {
        let after = self.lines.get(self.next).copied().unwrap_or_default();
        if let Some(names) = line.strip_prefix("diff --git ") {
            self.begin()?;
            if let Some((old, new)) = both_names(names) {
                let diff = self.last();
                (diff.old, diff.new) = (Some(old), Some(new));
            }
        } else if let Some(old) = line.strip_prefix("--- ")
            && let Some(new) = after.strip_prefix("+++ ")
        {
            let follows = |last: &FileDiff| last.promised.is_some() || !last.hunks.is_empty();
            if !self.open || self.diffs.last().is_some_and(follows) {
                self.begin()?;
            }
            let promised = self.next;
            let diff = self.last();
            diff.promised = Some(promised);
            if !diff.bare {
                (diff.old, diff.new) = (name(old), name(new));
                diff.epoch = (is_epoch(old), is_epoch(new));
            }
            self.next += 1;
        } else if line.starts_with("diff --cc ")
            || line.starts_with("diff --combined ")
            || (line.starts_with("@@@ -") && self.open)
        {
            return Err(self.malformed(
                self.next,
                "it is a merge's combined diff, which cannot be applied; make it against one parent",
            ));
        } else if line.starts_with("@@ -") {
            match hunk(line) {
                Some(hunk) if self.open => self.hunk(hunk)?,
                Some(_) => {
                    return Err(self.malformed(
                        self.next,
                        "a hunk stands where no file is named before it (`---` and `+++` lines)",
                    ));
                }
                None if self.open => {
                    return Err(self.malformed(self.next, "a hunk's header cannot be read"));
                }
                None => {}
            }
        } else if self.open {
            self.extended(line)?;
        }
        Ok(())
    }

    /// Counts the lines of a hunk.
    fn hunk(&mut self, hunk: Hunk) -> Result<(), PatchError> {
        let (mut old, mut new) = (hunk.old.1, hunk.new.1);
        let (first, mut context) = (self.next, false);
        self.last().hunks.push(hunk);
        while old > 0 || new > 0 {
            let Some(line) = self.take() else {
                return Err(self.malformed(first, &self.short(first, "its last hunk is cut off")));
            };
            match line.as_bytes().first() {
                Some(b' ' | b'\r') | None => {
                    old = old.saturating_sub(1);
                    new = new.saturating_sub(1);
                    context = true;
                }
                Some(b'-') => old = old.saturating_sub(1),
                Some(b'+') => new = new.saturating_sub(1),
                Some(b'\\') => {}
                Some(_) => {
                    let why = format!(
                        "the hunk is shorter than its header says: its next line, {:?}, begins \
                         with neither a space, `+` nor `-` (a mail program may have wrapped a \
                         long line)",
                        line.chars().take(60).collect::<String>()
                    );
                    return Err(self.malformed(self.next, &self.short(first, &why)));
                }
            }
        }
        let end = self.next;
        let diff = self.last();
        diff.end = end;
        if let Some(hunk) = diff.hunks.last_mut() {
            hunk.context = context;
        }
        Ok(())
    }

    /// Why a hunk that begins after the line `first` is too short.
    fn short(&self, first: usize, why: &str) -> String {
        let lines = self.lines[first..].iter().take(200);
        let is_word_diff = |line: &&str| {
            (line.contains("[-") && line.contains("-]"))
                || (line.contains("{+") && line.contains("+}"))
        };
        if lines.clone().any(is_word_diff)
            && !lines.clone().any(|line| line.starts_with(['+', '-']))
        {
            return "it is a word diff, which cannot be applied; make it without `--word-diff`"
                .to_owned();
        }
        why.to_owned()
    }

    /// Refuses a file that is named and not changed: its hunks are lost.
    fn end(&self) -> Result<(), PatchError> {
        match self.diffs.last() {
            Some(last) if last.promised.is_some() && last.hunks.is_empty() && !last.bare => {
                Err(self.malformed(last.line, "its file is named, and no hunk follows"))
            }
            _ => Ok(()),
        }
    }

    fn malformed(&self, line: usize, why: &str) -> PatchError {
        let place = match self.diffs.last().filter(|_| self.open) {
            Some(diff) => {
                let file = diff.new.as_deref().or(diff.old.as_deref());
                let hunk = match diff.hunks.len() {
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
    fn extended(&mut self, line: &str) -> Result<(), PatchError> {
        if line == "-- " || line.starts_with("From ") {
            self.open = false;
        } else if let Some(old) = renamed(line, ["rename from ", "copy from "]) {
            let diff = self.last();
            (diff.old, diff.bare) = (Some(old), true);
        } else if let Some(new) = renamed(line, ["rename to ", "copy to "]) {
            let diff = self.last();
            (diff.new, diff.bare) = (Some(new), true);
        } else if line.starts_with("deleted file mode ") {
            self.last().new = None;
        } else if line.starts_with("Binary files ") {
            return Err(self.malformed(
                self.next,
                "it changes a binary file without saying how: make it with `git diff --binary`",
            ));
        } else if line.starts_with("new file mode ") || line.starts_with("new mode ") {
            if !line.contains("mode 100") {
                return Err(self.malformed(
                    self.next,
                    "it makes a symbolic link or submodule, which is not supported",
                ));
            }
            if line.starts_with("new file ") {
                self.last().old = None;
            }
        }
        Ok(())
    }
}

fn renamed(line: &str, prefixes: [&str; 2]) -> Option<String> {
    let name = prefixes.iter().find_map(|prefix| line.strip_prefix(prefix));
    name.map(unquoted)
}

/// Whether the time in a `---` or `+++` line is the epoch, in any time zone.
fn is_epoch(text: &str) -> bool {
    let Some((_, time)) = text.trim_end().split_once('\t') else {
        return false;
    };
    let words: Vec<&str> = time.split_whitespace().collect();
    let [day, time, zone] = words[..] else {
        return false;
    };
    let minutes = |hours: &str, minutes: &str| -> Option<i64> {
        Some(hours.parse::<i64>().ok()? * 60 + minutes.parse::<i64>().ok()?)
    };
    let offset = |zone: &str| {
        let (sign, digits) = zone.split_at_checked(1)?;
        let (hours, rest) = digits.split_at_checked(2)?;
        let offset = minutes(hours, rest)?;
        Some(if sign == "-" { -offset } else { offset })
    };
    let local = || {
        let (hours, rest) = time.split_once(':')?;
        let (rest, seconds) = rest.split_once(':')?;
        let whole = seconds.bytes().all(|letter| matches!(letter, b'0' | b'.'));
        let day = match day {
            "1970-01-01" => 0,
            "1969-12-31" => -24 * 60,
            _ => return None,
        };
        whole.then_some(day + minutes(hours, rest)?)
    };
    local().is_some_and(|local| Some(local) == offset(zone))
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

/// Reads `@@ -l[,s] +l[,s] @@`.
fn hunk(line: &str) -> Option<Hunk> {
    let range = |text: &str| -> Option<(u64, u64)> {
        match text.split_once(',') {
            Some((line, size)) => Some((line.parse().ok()?, size.parse().ok()?)),
            None => Some((text.parse().ok()?, 1)),
        }
    };
    let rest = line.strip_prefix("@@ -")?;
    let (old, rest) = rest.split_once(" +")?;
    let (new, _) = rest.split_once(" @@")?;
    Some(Hunk {
        old: range(old)?,
        new: range(new)?,
        context: false,
        // It is shown, and comes from anywhere.
        header: line
            .trim_end()
            .chars()
            .map(|letter| if letter.is_control() { ' ' } else { letter })
            .take(100)
            .collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::Direction;

    fn try_read(text: &str) -> Result<Vec<FileDiff>, PatchError> {
        read(&Patch::new(
            "some.patch",
            text.as_bytes().to_vec(),
            Direction::Apply,
        ))
    }

    fn names(text: &str) -> Vec<(Option<String>, Option<String>)> {
        try_read(text)
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
        let error = try_read("--- a/f\n+++ b/f\n@@ -1,3 +1,3 @@\n-x\n").unwrap_err();
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
            let said = try_read(text).unwrap_err().to_string();
            assert!(said.contains(expected), "{text:?}: {said}");
        }
    }

    #[test]
    fn a_link_is_refused() {
        let error = try_read("diff --git a/f b/f\nnew file mode 120000\n").unwrap_err();
        assert!(error.to_string().contains("symbolic link"), "{error}");
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_answered(text in "(diff --git |--- |\\+\\+\\+ |@@ -1,2 \\+1 @@|rename from |new file mode |\"|[ab/\\\\ 0-9]|\n){0,40}") {
            let _ = try_read(&text);
        }
    }
}
