//! Quantities in a scenario's text: durations and sizes.

use std::str::FromStr;

/// Parses a duration such as `100ms` or `3s` into milliseconds.
pub(crate) fn milliseconds(text: &str) -> Result<u64, String> {
    let wrong = || format!("{text:?} is no duration such as 100ms, 3s or 1m");
    let duration = jiff::SignedDuration::from_str(text).map_err(|_| wrong())?;
    let nanos = duration.as_nanos();
    if nanos < 0 || nanos % 1_000_000 != 0 {
        return Err(format!("{text:?} is no whole number of milliseconds"));
    }
    u64::try_from(nanos / 1_000_000)
        .ok()
        .filter(|ms| *ms <= 3_600_000)
        .ok_or_else(|| format!("{text:?} is longer than an hour"))
}

/// The largest size: more than any guest has.
const LARGEST: u64 = 1 << 40;

/// Parses a size such as `4MiB` into bytes; a multiple of the page size.
pub(crate) fn bytes(text: &str) -> Result<u64, String> {
    let unit = text.trim_start_matches(|c: char| c.is_ascii_digit());
    let known = ["KiB", "MiB", "GiB"].contains(&unit) && unit.len() < text.len();
    let size = if known {
        bytesize::ByteSize::from_str(text).ok()
    } else {
        None
    };
    let bytes = size
        .map(|size| size.as_u64())
        .filter(|bytes| bytes % 4096 == 0)
        .ok_or_else(|| {
            format!("{text:?} is no size in whole pages of 4KiB, such as 16KiB or 4MiB")
        })?;
    if bytes > LARGEST {
        return Err(format!("{text:?} is more than 1024GiB, the largest size"));
    }
    Ok(bytes)
}

/// Parses a size such as `256MiB` into MiB.
pub(crate) fn mebibytes(text: &str) -> Result<u64, String> {
    let bytes = bytes(text)?;
    if bytes % (1 << 20) != 0 {
        return Err(format!("{text:?} is no whole number of MiB"));
    }
    Ok(bytes >> 20)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_a_unit() {
        assert_eq!(milliseconds("100ms"), Ok(100));
        assert_eq!(milliseconds("3s"), Ok(3000));
        assert_eq!(milliseconds("1m30s"), Ok(90_000));
        for wrong in ["", "3", "abc", "-3s", "1us", "3 parsecs", "2h"] {
            assert!(milliseconds(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn sizes_are_whole_pages_in_binary_units() {
        for large in ["1025GiB", "99999999GiB"] {
            let why = bytes(large).unwrap_err();
            assert!(why.contains("is more than 1024GiB"), "{why}");
        }
        assert_eq!(bytes("1024GiB"), Ok(1 << 40));
        assert_eq!(bytes("4MiB"), Ok(4 << 20));
        assert_eq!(bytes("16KiB"), Ok(16 << 10));
        assert_eq!(mebibytes("0MiB"), Ok(0));
        for wrong in [
            "",
            "4",
            "4MB",
            "1KiB",
            "MiB",
            "-4MiB",
            "4.5MiB",
            "99999999GiB",
        ] {
            assert!(bytes(wrong).is_err(), "{wrong:?}");
        }
        assert!(mebibytes("4KiB").is_err());
    }
}
