//! Why a series changes nothing in a kernel, file by file.

use numalab_kernels::guard::{Compiled, Source};
use numalab_kernels::patch::{Touched, TouchedFile};
use numalab_kernels::{Cache, Kernel};

use super::report::Unchanged;

/// The reasons, as far as they can be told.
pub(super) fn of(touched: &Touched, cache: &Cache, kernel: &Kernel) -> Vec<Unchanged> {
    let source = Source::of(cache, kernel);
    let reasons = touched.files.iter().map(|file| Unchanged {
        file: file.path.clone(),
        because: because(file, source.as_ref(), kernel),
    });
    reasons.collect()
}

fn because(file: &TouchedFile, source: Option<&Source>, kernel: &Kernel) -> String {
    if file.only_comments() {
        return "only comments and blank lines are changed".to_owned();
    }
    let Some(source) = source else {
        return "it gives the same code".to_owned();
    };
    let unset = |options: &mut dyn Iterator<Item = String>| -> Vec<String> {
        let is_set = |option: &String| {
            let value = kernel.config_value(option);
            matches!(value, Ok(Some(value)) if value == "y" || value == "m")
        };
        options.filter(|option| !is_set(option)).collect()
    };
    match source.compiled(&file.path) {
        Compiled::NoCode => return "it is nothing that is compiled".to_owned(),
        Compiled::With(options) => {
            let unset = unset(&mut options.into_iter());
            if !unset.is_empty() {
                return without("it is", &unset);
            }
        }
        Compiled::Header | Compiled::Unknown => {}
    }
    let lines = file.changes.iter().flat_map(|change| {
        let removed = u32::try_from(change.removed.len()).unwrap_or(u32::MAX);
        change.old_line..change.old_line + removed.max(1)
    });
    let around = lines.map(|line| {
        let options = source.around(&file.path, line.into());
        unset(&mut options.into_iter())
    });
    let around: Vec<Vec<String>> = around.collect();
    if !around.is_empty() && around.iter().all(|options| !options.is_empty()) {
        let mut options = around.concat();
        options.sort();
        options.dedup();
        return without("its changed lines are", &options);
    }
    match source.compiled(&file.path) {
        Compiled::Header => "a header: what includes it gives the same code".to_owned(),
        Compiled::Unknown => "no Makefile that could be read names it".to_owned(),
        _ => "it is compiled, and gives the same code".to_owned(),
    }
}

fn without(what: &str, unset: &[String]) -> String {
    let are = if unset.len() == 1 { "is" } else { "are" };
    format!(
        "{what} compiled only with {}, which {are} not set",
        unset.join(" and ")
    )
}
