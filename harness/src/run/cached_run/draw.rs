//! Which cached results are run again: a random share.
//!
//! The choice depends on a result's key and on a number that is new each time and is printed,
//! so that it can be repeated.

use std::fmt;
use std::hash::{BuildHasher as _, RandomState};

use numalab_kernels::Digest;
use numalab_kernels::digest::Digester;

use crate::environment::Environment;

/// One in so many cached results is run again.
const ONE_IN: u64 = 50;

/// The variable that sets another number; 1 runs all again, 0 none.
const ONE_IN_VARIABLE: &str = "NUMALAB_PROVE_AGAIN";

/// The variable that repeats a draw.
const DRAW_VARIABLE: &str = "NUMALAB_DRAW";

/// A share of cached results that is run again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    one_in: u64,
    draw: u64,
}

/// A variable whose value is not a number.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, miette::Diagnostic)]
#[error("{variable} is {value:?}, which is not a whole number")]
pub struct ShareError {
    variable: &'static str,
    value: String,
}

impl Share {
    /// One in `one_in` (none if that is 0), by the draw of that number.
    pub fn new(one_in: u64, draw: u64) -> Share {
        Share { one_in, draw }
    }

    /// One in 50, by a new draw, unless the environment says otherwise.
    ///
    /// # Errors
    /// The environment names something that is no number.
    pub fn of(environment: &Environment) -> Result<Share, ShareError> {
        let number = |variable, value: &Option<String>| match value {
            None => Ok(None),
            Some(value) => value.parse().map(Some).map_err(|_| ShareError {
                variable,
                value: value.clone(),
            }),
        };
        // A hasher of the standard library is keyed anew in each process.
        let new = || RandomState::new().hash_one(()) % 1_000_000;
        Ok(Share {
            one_in: number(ONE_IN_VARIABLE, &environment.prove_again)?.unwrap_or(ONE_IN),
            draw: number(DRAW_VARIABLE, &environment.draw)?.unwrap_or_else(new),
        })
    }

    /// Whether a result is run again.
    pub fn draws(&self, key: Digest) -> bool {
        let lot = Digester::new()
            .field("draw", self.draw.to_string())
            .field("key", key.to_string())
            .finish()
            .short();
        let lot = u64::from_str_radix(&lot, 16).unwrap_or(0);
        lot.checked_rem(self.one_in) == Some(0)
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Share { one_in, draw } = self;
        match one_in {
            1 => write!(f, "{ONE_IN_VARIABLE}=1"),
            _ => write!(f, "one in {one_in} is, at random ({DRAW_VARIABLE}={draw})"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn about_one_in_so_many_is_drawn_and_a_draw_can_be_repeated() {
        let keys: Vec<Digest> = (0..2000)
            .map(|n: u32| Digest::of(&n.to_le_bytes()))
            .collect();
        let drawn = |share: Share| -> Vec<usize> {
            (0..keys.len()).filter(|n| share.draws(keys[*n])).collect()
        };
        let first = drawn(Share::new(50, 1));
        assert!((20..=70).contains(&first.len()), "{}", first.len());
        assert_eq!(drawn(Share::new(50, 1)), first);
        assert_ne!(drawn(Share::new(50, 2)), first);
        assert_eq!(drawn(Share::new(1, 3)).len(), keys.len());
        assert_eq!(drawn(Share::new(0, 4)), [0_usize; 0]);
    }

    #[test]
    fn no_result_is_left_out_for_ever() {
        let key = Digest::of(b"a result");
        assert!((0..1000).any(|draw| Share::new(50, draw).draws(key)));
    }
}
