//! SHA-256 digests: how things in the cache are named and compared.
//!
//! It knows nothing of what is digested; each noun says itself which of its fields
//! make it what it is.

use std::fmt;
use std::io::{self, Read};
use std::path::Path;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest as _, Sha256};

/// A SHA-256 value, shown as 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest([u8; 32]);

/// A text that is no digest.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no SHA-256 value: 64 hexadecimal digits are expected")]
pub struct NoDigest(String);

impl Digest {
    /// Digests some bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// Digests a file's content, read in pieces.
    pub fn of_file(path: &Path) -> io::Result<Self> {
        Self::of_reader(&mut crate::files::open(path)?)
    }

    /// Digests what a reader gives until its end.
    pub(crate) fn of_reader(file: &mut impl Read) -> io::Result<Self> {
        let mut digester = Digester::new();
        let mut piece = vec![0; 256 * 1024];
        loop {
            let count = file.read(&mut piece)?;
            if count == 0 {
                return Ok(digester.finish());
            }
            digester.bytes(&piece[..count]);
        }
    }

    /// The first 16 hexadecimal digits, for names of folders.
    pub fn short(&self) -> String {
        let mut text = self.to_string();
        text.truncate(16);
        text
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for byte in self.0 {
            write!(formatter, "{byte:02x}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Digest({self})")
    }
}

impl FromStr for Digest {
    type Err = NoDigest;

    fn from_str(text: &str) -> Result<Self, NoDigest> {
        let fault = || NoDigest(text.chars().take(80).collect());
        let digits = text.as_bytes();
        if digits.len() != 64 {
            return Err(fault());
        }
        let mut value = [0; 32];
        for (byte, pair) in value.iter_mut().zip(digits.chunks_exact(2)) {
            let high = char::from(pair[0]).to_digit(16).ok_or_else(fault)?;
            let low = char::from(pair[1]).to_digit(16).ok_or_else(fault)?;
            *byte = u8::try_from(high * 16 + low).map_err(|_| fault())?;
        }
        Ok(Self(value))
    }
}

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(serde::de::Error::custom)
    }
}

/// A digest in the making, of named fields.
///
/// Names and lengths go in as well, so that no two different lists of fields give
/// the same stream of bytes.
#[derive(Debug, Clone, Default)]
pub struct Digester(Sha256);

impl Digester {
    /// Starts with nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a field.
    pub fn field(&mut self, name: &str, value: impl AsRef<[u8]>) -> &mut Self {
        let value = value.as_ref();
        self.bytes(&(name.len() as u64).to_le_bytes());
        self.bytes(name.as_bytes());
        self.bytes(&(value.len() as u64).to_le_bytes());
        self.bytes(value);
        self
    }

    /// Adds bytes as they are.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The digest of all that was added.
    pub fn finish(&self) -> Digest {
        Digest(self.0.clone().finalize().into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_value_and_round_trip() {
        let empty = Digest::of(b"");
        let text = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(empty.to_string(), text);
        assert_eq!(text.parse::<Digest>().unwrap(), empty);
    }

    #[test]
    fn fields_do_not_run_into_each_other() {
        let one = Digester::new().field("a", "bc").finish();
        let other = Digester::new().field("ab", "c").finish();
        let two = Digester::new().field("a", "b").field("a", "c").finish();
        assert_ne!(one, other);
        assert_ne!(one, two);
    }

    #[test]
    fn what_is_no_digest_is_refused() {
        for text in ["", "e3b0", &"g".repeat(64), &"é".repeat(32)] {
            assert!(text.parse::<Digest>().is_err(), "{text:?}");
        }
    }
}
