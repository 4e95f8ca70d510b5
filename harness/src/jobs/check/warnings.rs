//! Compiler warnings that only the patched kernel's build prints.

use std::collections::BTreeMap;

use numalab_kernels::CompilerWarning;
use numalab_kernels::patch::Touched;

/// The warnings in touched files that the patched kernel's build prints more often than the
/// base's. Their lines are not compared: a patch moves them.
pub(super) fn new(
    touched: &Touched,
    base: &[CompilerWarning],
    patched: Vec<CompilerWarning>,
) -> Vec<CompilerWarning> {
    let mut known: BTreeMap<(String, String), usize> = BTreeMap::new();
    for warning in base {
        *known
            .entry((warning.file.clone(), warning.text.clone()))
            .or_default() += 1;
    }
    let is_touched = |file: &str| touched.files.iter().any(|touched| touched.path == file);
    let mut patched = patched;
    patched.retain(|warning| {
        if !is_touched(&warning.file) {
            return false;
        }
        match known.get_mut(&(warning.file.clone(), warning.text.clone())) {
            Some(left) if *left > 0 => {
                *left -= 1;
                false
            }
            _ => true,
        }
    });
    patched
}

#[cfg(test)]
mod tests {
    use numalab_kernels::patch::TouchedFile;

    use super::*;

    fn warning(file: &str, line: u32, text: &str) -> CompilerWarning {
        CompilerWarning {
            file: file.into(),
            line: Some(line),
            text: text.into(),
            unit: file.into(),
        }
    }

    #[test]
    fn only_new_warnings_in_touched_files_count() {
        let touched = Touched {
            files: vec![TouchedFile {
                path: "mm/x.c".into(),
                ..TouchedFile::default()
            }],
        };
        let base = [warning("mm/x.c", 7, "unused variable 'a'")];
        let patched = vec![
            // It has moved.
            warning("mm/x.c", 9, "unused variable 'a'"),
            warning("mm/y.c", 1, "unused variable 'b'"),
            warning("mm/x.c", 12, "unused variable 'c'"),
            // There is one more of these.
            warning("mm/x.c", 20, "unused variable 'a'"),
        ];
        let new = new(&touched, &base, patched.clone());
        assert_eq!(new, [patched[2].clone(), patched[3].clone()]);
    }
}
