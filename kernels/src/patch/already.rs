//! Whether what a patch that does not fit adds is in the source already, in another form.
//!
//! A patch that was taken upstream seldom has the text that was sent: comments, braces and
//! neighbours differ, so that taking it back would not work either. What is compared here is
//! the code of each hunk, within the function that the hunk names. It is evidence for a
//! message and nothing else: no patch is left out because of it.

use std::collections::BTreeMap;

use super::{Mismatch, text};
use crate::source::tree::Content;

/// A line with fewer letters, without spaces, is in many places: `return;`, `}`.
const TELLING: usize = 20;

/// The place where the files have all code that a patch adds, as its first line: file,
/// and line from 1.
pub(super) fn told(
    patch: &[u8],
    strip: usize,
    files: &BTreeMap<String, Content>,
) -> Option<Mismatch> {
    let content = |name: &str| Some(files.get(name)?.as_ref()?.bytes.clone());
    let (file, line) = place(patch, strip, content)?;
    Some(Mismatch::InAnotherForm { file, line })
}

/// A hunk: the function that its header names, and the code that it takes and adds.
#[derive(Debug, Default)]
struct Hunk {
    file: String,
    function: String,
    removed: Vec<String>,
    added: Vec<String>,
}

/// The place of the first line of code that the patch adds and the source has: file, and
/// line from 1. `None` unless the source has all of it, in each hunk's function, and nothing
/// that the patch takes away.
fn place(
    patch: &[u8],
    strip: usize,
    content: impl Fn(&str) -> Option<Vec<u8>>,
) -> Option<(String, usize)> {
    let hunks = hunks(&String::from_utf8_lossy(patch), strip);
    let telling = |line: &String| line.len() >= TELLING;
    let mut first = None;
    for hunk in &hunks {
        if hunk.added.is_empty() && hunk.removed.is_empty() {
            // Comments only.
            continue;
        }
        let text = content(&hunk.file)?;
        let text = String::from_utf8_lossy(&text);
        let body = function(&text, &hunk.function)?;
        let here = |line: &String| body.iter().any(|(_, code)| code == line);
        if hunk.removed.iter().filter(|line| telling(line)).any(here) {
            return None;
        }
        let mut rest = body.iter();
        for line in &hunk.added {
            let (number, _) = rest.find(|(_, code)| code == line)?;
            if telling(line) && first.is_none() {
                first = Some((hunk.file.clone(), *number));
            }
        }
    }
    first
}

/// A line without spaces, without the brace at its end, if any code is left then.
fn code(line: &str) -> Option<String> {
    let line = line.trim();
    let comment = ["/*", "*", "//"].iter().any(|mark| line.starts_with(mark));
    let plain: String = line
        .chars()
        .filter(|letter| !letter.is_whitespace())
        .collect();
    let plain = plain.trim_end_matches('{');
    (!comment && !plain.is_empty() && plain != "}").then(|| plain.to_owned())
}

/// The lines of code of a function that a hunk's header names, with their numbers; of the
/// whole file if it names none.
fn function(text: &str, name: &str) -> Option<Vec<(usize, String)>> {
    let lines = (1..).zip(text.lines());
    let coded = |(number, line): (usize, &str)| Some((number, code(line)?));
    if name.is_empty() {
        return Some(lines.filter_map(coded).collect());
    }
    // git cuts long headers off, and a prototype has the same beginning.
    let mut bodies = Vec::new();
    let mut body: Option<Vec<(usize, String)>> = None;
    for (number, line) in lines {
        if line.starts_with(name) && !line.trim_end().ends_with(';') {
            body = Some(Vec::new());
        } else if line.starts_with('}') {
            bodies.extend(body.take());
        } else if let Some(body) = &mut body {
            body.extend(coded((number, line)));
        }
    }
    bodies.into_iter().next()
}

fn hunks(text: &str, strip: usize) -> Vec<Hunk> {
    let mut found: Vec<Hunk> = Vec::new();
    let mut file = String::new();
    let (mut old, mut new) = (0_u64, 0_u64);
    for line in text.lines() {
        if old > 0 || new > 0 {
            let Some(hunk) = found.last_mut() else {
                continue;
            };
            match line.as_bytes().first() {
                Some(b'-') => {
                    old = old.saturating_sub(1);
                    hunk.removed.extend(code(&line[1..]));
                }
                Some(b'+') => {
                    new = new.saturating_sub(1);
                    hunk.added.extend(code(&line[1..]));
                }
                Some(b'\\') => {}
                _ => {
                    (old, new) = (old.saturating_sub(1), new.saturating_sub(1));
                }
            }
        } else if let Some(name) = line.strip_prefix("+++ ") {
            let name = name.split('\t').next().unwrap_or_default();
            file = name
                .splitn(strip + 1, '/')
                .last()
                .unwrap_or_default()
                .to_owned();
        } else if line.starts_with("@@ -")
            && let Some((_, before, after)) = text::hunk(line)
        {
            (old, new) = (before, after);
            let function = line[3..]
                .split_once("@@")
                .map_or("", |(_, name)| name.trim());
            found.push(Hunk {
                file: file.clone(),
                function: function.to_owned(),
                ..Hunk::default()
            });
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATCH: &str = "--- a/kernel/x.c\n+++ b/kernel/x.c\n\
        @@ -10,4 +10,8 @@ static void work(struct task *p)\n \tif (p->gone)\n \t\treturn;\n \n\
        +\t/* not here */\n+\tif (enabled() && weight(allowed) == 1)\n+\t\treturn;\n+\n \tgo(p);\n";

    fn told(source: &str) -> Option<usize> {
        let found = place(PATCH.as_bytes(), 1, |name| {
            (name == "kernel/x.c").then(|| source.as_bytes().to_vec())
        });
        found.map(|(file, line)| {
            assert_eq!(file, "kernel/x.c");
            line
        })
    }

    #[test]
    fn what_the_function_has_in_another_form_is_found() {
        let source = "static void work(struct task *p);\n\nstatic void work(struct task *p)\n{\n\
            \tif (p->gone)\n\t\treturn;\n\n\tif (enabled() &&  weight(allowed) == 1) {\n\
            \t\ttrace(p);\n\t\treturn;\n\t}\n\tgo(p);\n}\n";
        assert_eq!(told(source), Some(8));
    }

    #[test]
    fn another_function_or_half_of_it_is_not_it() {
        let other = "static void work(struct task *p)\n{\n\tgo(p);\n}\n\nvoid other(void)\n{\n\
            \tif (enabled() && weight(allowed) == 1)\n\t\treturn;\n}\n";
        assert_eq!(told(other), None);
        let half = "static void work(struct task *p)\n{\n\
            \tif (enabled() && weight(allowed) == 1)\n\t\tgo(p);\n}\n";
        assert_eq!(told(half), None);
        assert_eq!(told(""), None);
    }

    #[test]
    fn what_is_still_to_be_taken_away_is_not_there_already() {
        let patch = "--- a/x.c\n+++ b/x.c\n@@ -1,3 +1,3 @@ int f(void)\n \tstart();\n\
            -\tcall_it_in_the_old_way(1);\n+\tcall_it_in_the_new_way(1);\n \tend();\n";
        let told = |body: &str| {
            let source = format!("int f(void)\n{{\n{body}}}\n");
            place(patch.as_bytes(), 1, |_| Some(source.clone().into_bytes()))
        };
        assert_eq!(
            told("\tcall_it_in_the_new_way(1);\n"),
            Some(("x.c".to_owned(), 3))
        );
        assert_eq!(
            told("\tcall_it_in_the_new_way(1);\n\tcall_it_in_the_old_way(1);\n"),
            None
        );
    }

    #[test]
    fn lines_that_are_everywhere_prove_nothing() {
        let patch =
            "--- a/x.c\n+++ b/x.c\n@@ -1,2 +1,3 @@ int f(void)\n \ta();\n+\treturn 0;\n \tb();\n";
        let source = "int f(void)\n{\n\tc();\n\treturn 0;\n}\n";
        assert_eq!(
            place(patch.as_bytes(), 1, |_| Some(source.as_bytes().to_vec())),
            None
        );
    }
}
