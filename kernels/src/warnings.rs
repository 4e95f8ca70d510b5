//! The warnings in a build's output.
//!
//! An object tree is compiled bit by bit, from build to build, and a compiler warns only when
//! it runs. So the warnings of earlier builds are kept until their files are compiled again.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde::{Deserialize, Serialize};

/// A warning of the compiler, the assembler, the linker, objtool or modpost.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct CompilerWarning {
    /// The file that it is about, relative to the source: `kernel/sched/fair.c`, or
    /// `vmlinux.o` if a tool warns of what was compiled. Empty if the tool names none.
    pub file: String,
    /// The line, if the tool names one.
    pub line: Option<u32>,
    /// The text after `warning: `, such as `unused variable 'x' [-Wunused-variable]`.
    pub text: String,
    /// The file that was being compiled; it differs from `file` for a warning in a header.
    pub unit: String,
}

/// The longest text of a warning that is kept, in characters.
const LONGEST: usize = 1000;

/// More warnings than this are no help to anybody.
const MOST: usize = 10_000;

/// Collects the warnings of one run of `make`.
#[derive(Debug)]
pub(crate) struct Collector<'a> {
    source: &'a Path,
    found: Vec<CompilerWarning>,
    /// The objects that were made, without their extensions.
    made: BTreeSet<String>,
    /// The compiled file that the last "In file included from" names.
    includer: Option<String>,
    /// Included files, and by which compiled file each was last included.
    included: BTreeMap<String, String>,
}

impl<'a> Collector<'a> {
    pub(crate) fn of(source: &'a Path) -> Self {
        Self {
            source,
            found: Vec::new(),
            made: BTreeSet::new(),
            includer: None,
            included: BTreeMap::new(),
        }
    }

    /// Takes one line of the build's output.
    pub(crate) fn take(&mut self, line: &str) {
        if let Some(step) = line.strip_prefix("  ")
            && let Some((_, object)) = step.split_once(' ')
            && step.starts_with(|first: char| first.is_ascii_uppercase())
        {
            let object = object.trim_start().trim_start_matches("[M]").trim_start();
            self.made.insert(stem(object).to_owned());
            return;
        }
        if let Some(includer) = includer(line) {
            self.includer = Some(self.relative(includer));
            return;
        }
        if line.starts_with([' ', '\t']) {
            return;
        }
        // "FILE: In function 'f':" may stand between the includer and the warning.
        if let Some((file, _)) = line.split_once(':')
            && let Some(includer) = self.includer.take()
        {
            if file.starts_with("In function") {
                self.includer = Some(includer);
            } else {
                self.included.insert(self.relative(file), includer);
            }
        }
        if self.found.len() < MOST
            && let Some((file, line, text)) = warning(line)
        {
            let file = self.relative(file);
            self.found.push(CompilerWarning {
                unit: self.included.get(&file).unwrap_or(&file).clone(),
                file,
                line,
                text: text.chars().take(LONGEST).collect(),
            });
        }
    }

    /// All warnings of an object tree: those of this run, and those `before` it whose files
    /// were not compiled again. `None` if the latter are not known.
    pub(crate) fn with(
        mut self,
        before: Option<Vec<CompilerWarning>>,
    ) -> Option<Vec<CompilerWarning>> {
        let linked = self.made.iter().any(|object| object.starts_with("vmlinux"));
        let mut all = before?;
        all.retain(|warning| {
            if is_source(&warning.unit) {
                !self.made.contains(stem(&warning.unit))
                    && self.source.join(&warning.unit).is_file()
            } else {
                !linked
            }
        });
        all.append(&mut self.found);
        all.sort_unstable();
        all.dedup();
        Some(all)
    }

    fn relative(&self, file: &str) -> String {
        let inside = Path::new(file).strip_prefix(self.source).ok();
        inside
            .and_then(Path::to_str)
            .unwrap_or_else(|| file.trim_start_matches("./"))
            .to_owned()
    }
}

/// The compiled file that GCC's and Clang's "In file included from" and GCC's "inlined from"
/// name. Of several lines the last one is the compiled file.
fn includer(line: &str) -> Option<&str> {
    let trimmed = line.trim_start();
    let place = trimmed
        .strip_prefix("In file included from ")
        .or_else(|| trimmed.strip_prefix("from "))
        .or_else(|| {
            trimmed
                .strip_prefix("inlined from ")?
                .split_once(" at ")
                .map(|(_, at)| at)
        })?;
    place.split(':').next()
}

/// The file, line and text of a line that warns.
fn warning(line: &str) -> Option<(&str, Option<u32>, &str)> {
    if let Some(text) = line.strip_prefix("WARNING: ") {
        return Some(("", None, text));
    }
    let mark = [": warning: ", ": Warning: "];
    let (at, mark) = mark
        .iter()
        .filter_map(|mark| Some((line.find(mark)?, mark)))
        .min()?;
    let (place, text) = (&line[..at], &line[at + mark.len()..]);
    if place.starts_with("make") {
        return None;
    }
    let mut file = place;
    let mut numbers = Vec::new();
    while let Some((rest, last)) = file.rsplit_once(':')
        && let Ok(number) = last.parse()
    {
        numbers.push(number);
        file = rest;
    }
    Some((file, numbers.pop(), text))
}

fn is_source(file: &str) -> bool {
    [".c", ".S", ".h", ".rs"]
        .iter()
        .any(|end| file.ends_with(end))
}

fn stem(file: &str) -> &str {
    match file.rsplit_once('.') {
        Some((stem, end)) if !end.contains('/') => stem,
        _ => file,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn collect(source: &Path, before: Option<Vec<CompilerWarning>>, text: &str) -> Vec<String> {
        let mut collector = Collector::of(source);
        text.lines().for_each(|line| collector.take(line));
        let all = collector.with(before).unwrap();
        all.iter()
            .map(|warning| {
                let CompilerWarning {
                    file,
                    line,
                    text,
                    unit,
                } = warning;
                format!("{file} {line:?} {text} ({unit})")
            })
            .collect()
    }

    #[test]
    fn each_tool_warns_in_its_own_form() {
        let text = "\
  CC      mm/a.o
/src/mm/a.c: In function 'f':
/src/mm/a.c:12:7: warning: unused variable 'x' [-Wunused-variable]
   12 |   int x; /* y: warning: z */
      |       ^
/src/arch/x86/b.S:3: Warning: found `movsd'
In file included from /src/include/linux/b.h:3,
                 from /src/mm/c.c:9:
/src/include/linux/d.h: In function 'g':
/src/include/linux/d.h:7:1: warning: one
/src/include/linux/d.h:8:1: warning: two
In function 'memcpy',
    inlined from 'f' at /src/mm/e.c:12:9:
/src/include/linux/fortify-string.h:571:25: warning: call to '__write_overflow'
vmlinux.o: warning: objtool: f+0x12: unreachable instruction
WARNING: modpost: vmlinux: section mismatch in reference
make[1]: warning: Clock skew detected.  Your build may be incomplete.
2 warnings generated.
";
        assert_eq!(
            collect(Path::new("/src"), Some(Vec::new()), text),
            [
                " None modpost: vmlinux: section mismatch in reference ()",
                "arch/x86/b.S Some(3) found `movsd' (arch/x86/b.S)",
                "include/linux/d.h Some(7) one (mm/c.c)",
                "include/linux/d.h Some(8) two (mm/c.c)",
                "include/linux/fortify-string.h Some(571) call to '__write_overflow' (mm/e.c)",
                "mm/a.c Some(12) unused variable 'x' [-Wunused-variable] (mm/a.c)",
                "vmlinux.o None objtool: f+0x12: unreachable instruction (vmlinux.o)",
            ]
        );
    }

    #[test]
    fn a_warning_stays_until_its_file_is_compiled_again() {
        let source = tempfile::tempdir().unwrap();
        std::fs::create_dir(source.path().join("mm")).unwrap();
        for file in ["mm/a.c", "mm/b.c"] {
            std::fs::write(source.path().join(file), "").unwrap();
        }
        let old = |file: &str| CompilerWarning {
            file: file.to_owned(),
            line: None,
            text: "old".to_owned(),
            unit: file.to_owned(),
        };
        let before = || {
            Some(vec![
                old("mm/a.c"),
                old("mm/b.c"),
                old("mm/gone.c"),
                old("vmlinux.o"),
            ])
        };
        let shown = |text: &str| collect(source.path(), before(), text);
        assert_eq!(
            shown("  CC      mm/b.o\n"),
            ["mm/a.c None old (mm/a.c)", "vmlinux.o None old (vmlinux.o)",]
        );
        assert_eq!(
            shown("  LD      vmlinux.o\nmm/b.c:1:1: warning: new\n"),
            [
                "mm/a.c None old (mm/a.c)",
                "mm/b.c None old (mm/b.c)",
                "mm/b.c Some(1) new (mm/b.c)",
            ]
        );
        assert_eq!(Collector::of(source.path()).with(None), None);
    }
}
