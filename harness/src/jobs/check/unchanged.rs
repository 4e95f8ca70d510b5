//! Why a series changes nothing in a kernel, file by file.

use numalab_kernels::guard::{Compiled, Source};
use numalab_kernels::{Cache, Kernel};

use super::report::Unchanged;
use super::touched::Touched;

/// The reasons, as far as they can be told. `is_alone`: the series is one patch.
pub(super) fn of(
    touched: &Touched,
    is_alone: bool,
    cache: &Cache,
    kernel: &Kernel,
) -> Vec<Unchanged> {
    let source = Source::of(cache, kernel);
    let reasons = touched.files.iter().map(|file| Unchanged {
        file: file.clone(),
        because: because(touched, file, is_alone, source.as_ref(), kernel),
    });
    reasons.collect()
}

fn because(
    touched: &Touched,
    file: &str,
    is_alone: bool,
    source: Option<&Source>,
    kernel: &Kernel,
) -> String {
    if touched.only_comments(file) {
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
    match source.compiled(file) {
        Compiled::NoCode => return "it is nothing that is compiled".to_owned(),
        Compiled::With(options) => {
            let unset = unset(&mut options.into_iter());
            if !unset.is_empty() {
                return without("it is", &unset);
            }
        }
        Compiled::Header | Compiled::Unknown => {}
    }
    // Where the patches before it moved lines, the numbers are not the base's.
    let lines = touched.lines.get(file).filter(|_| is_alone);
    let around = lines.into_iter().flatten().map(|line| {
        let options = source.around(file, *line);
        unset(&mut options.into_iter())
    });
    let around: Vec<Vec<String>> = around.collect();
    if !around.is_empty() && around.iter().all(|options| !options.is_empty()) {
        let mut options = around.concat();
        options.sort();
        options.dedup();
        return without("its changed lines are", &options);
    }
    match source.compiled(file) {
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
