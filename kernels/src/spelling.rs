//! "Did you mean": the name nearest to a misspelt one.

/// The candidate nearest to `word`, if it is near enough to be what the user meant: at most
/// a third of its letters differ.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let (distance, candidate) = closest(word, candidates)?;
    (distance * 3 <= candidate.chars().count().max(3)).then_some(candidate)
}

/// The candidate nearest to `word`, and how many letters differ.
pub fn closest<'a>(
    word: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<(usize, &'a str)> {
    candidates
        .into_iter()
        .map(|candidate| (strsim::damerau_levenshtein(word, candidate), candidate))
        .min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_is_understood_and_a_stranger_is_not() {
        let names = ["linux-6.12", "cpuset-skip", "no-late-vma-scan"];
        assert_eq!(nearest("linux-6.21", names), Some("linux-6.12"));
        assert_eq!(nearest("cpusetskip", names), Some("cpuset-skip"));
        assert_eq!(nearest("windows", names), None);
    }
}
