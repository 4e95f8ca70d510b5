//! The names and values of configuration options.

/// Whether an option of any type can have this value (`sym_string_valid()` in
/// `scripts/kconfig/symbol.c`): `y`, `m`, `n`, a number, or a text in double quotes.
pub(crate) fn is_value(value: &str) -> bool {
    let digits = value.strip_prefix('-').unwrap_or(value);
    let hex = value.strip_prefix("0x").or(value.strip_prefix("0X"));
    let all = |text: &str, is: fn(&char) -> bool| !text.is_empty() && text.chars().all(|c| is(&c));
    let quoted = value.len() > 1 && value.starts_with('"') && value.ends_with('"');
    matches!(value, "y" | "m" | "n")
        || quoted
        || all(digits, char::is_ascii_digit)
        || all(hex.unwrap_or(value), char::is_ascii_hexdigit)
}

/// Whether a name is one that an option can have.
pub(crate) fn is_option(name: &str) -> bool {
    name.strip_prefix("CONFIG_").is_some_and(|rest| {
        !rest.is_empty()
            && rest
                .chars()
                .all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
    })
}
