//! The kernel's list format, such as `0-2,5` (`Documentation/admin-guide/cpuset`,
//! "List Format"), for CPUs and nodes.

/// Why a text is not a list.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a list of numbers such as 0-2,5")]
pub struct ListError {
    /// The text.
    pub text: String,
}

/// The greatest number accepted, well above the limits of any kernel.
pub const LIMIT: u32 = 8191;

/// Parses a list into its numbers, sorted and deduplicated. An empty text is an empty list.
pub fn parse(text: &str) -> Result<Vec<u32>, ListError> {
    let error = || ListError { text: text.into() };
    let number = |word: &str| {
        let plain = !word.is_empty() && word.bytes().all(|b| b.is_ascii_digit());
        plain
            .then(|| word.parse::<u32>().ok())
            .flatten()
            .filter(|n| *n <= LIMIT)
            .ok_or_else(error)
    };
    let mut numbers = Vec::new();
    for part in text.trim().split(',').filter(|_| !text.trim().is_empty()) {
        let (low, high) = match part.split_once('-') {
            Some((low, high)) => (number(low)?, number(high)?),
            None => (number(part)?, number(part)?),
        };
        if low > high {
            return Err(error());
        }
        numbers.extend(low..=high);
    }
    numbers.sort_unstable();
    numbers.dedup();
    Ok(numbers)
}

/// Writes numbers, ascending, as a list.
pub fn format(numbers: &[u32]) -> String {
    let mut parts: Vec<(u32, u32)> = Vec::new();
    for &number in numbers {
        match parts.last_mut() {
            Some((_, high)) if *high + 1 == number => *high = number,
            _ => parts.push((number, number)),
        }
    }
    let words = parts.iter().map(|(low, high)| {
        if low == high {
            low.to_string()
        } else {
            format!("{low}-{high}")
        }
    });
    words.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn lists_are_read_as_the_kernel_reads_them() {
        assert_eq!(parse("0-2,5\n").unwrap(), [0, 1, 2, 5]);
        assert!(parse("").unwrap().is_empty());
        for wrong in ["a", "1-", "-1", "3-1", "1,,2", "+1", "0-99999999"] {
            assert_eq!(parse(wrong).unwrap_err().text, wrong);
        }
    }

    proptest! {
        #[test]
        fn a_list_comes_back(numbers in proptest::collection::btree_set(0_u32..300, 0..40)) {
            let numbers: Vec<u32> = numbers.into_iter().collect();
            prop_assert_eq!(parse(&format(&numbers)).unwrap(), numbers);
        }
    }
}
