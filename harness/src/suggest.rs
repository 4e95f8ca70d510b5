//! Suggestions for misspelt names.

/// A sentence that helps with a name that is not known: the nearest known name, and what
/// there is.
pub(crate) fn help(name: &str, known: &[&str]) -> String {
    let mut known: Vec<&str> = known.to_vec();
    known.sort_unstable();
    known.dedup();
    if known.is_empty() {
        return "there is none at all".into();
    }
    let all = known.join(", ");
    match numalab_kernels::spelling::nearest(name, known.iter().copied()) {
        Some(nearest) => format!("did you mean {nearest}? There are: {all}"),
        None => format!("there are: {all}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_suggested() {
        let known = ["pinned", "control"];
        assert_eq!(
            help("pinnd", &known),
            "did you mean pinned? There are: control, pinned"
        );
        assert_eq!(help("zzz", &known), "there are: control, pinned");
        assert_eq!(help("zzz", &[]), "there is none at all");
    }
}
