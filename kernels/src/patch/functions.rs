//! Which function of a C file encloses a line.
//!
//! A scan by the kernel's coding style: a function's signature begins in the first column,
//! and so do the braces around its body (or the opening one ends the signature).

use std::sync::LazyLock;

use regex::Regex;

/// The function or macro that encloses each line of a C file.
pub(super) fn enclosing(text: &str) -> Vec<Option<String>> {
    let lines: Vec<&str> = text.lines().collect();
    let mut names: Vec<Option<String>> = vec![None; lines.len()];
    // A signature whose body has not begun, with the line at which it begins.
    let mut signature: Option<(usize, String)> = None;
    let mut body: Option<String> = None;
    let mut macro_name: Option<String> = None;
    let mut in_comment = false;
    for (index, line) in lines.iter().enumerate() {
        names[index].clone_from(&body);
        if in_comment {
            in_comment = !line.contains("*/");
            continue;
        }
        if let Some(name) = macro_name.take().or_else(|| macro_of(line)) {
            names[index] = Some(name.clone());
            macro_name = line.ends_with('\\').then_some(name);
            continue;
        }
        in_comment = line
            .rfind("/*")
            .is_some_and(|start| !line[start..].contains("*/"));
        if line.starts_with('}') {
            (body, signature) = (None, None);
            continue;
        }
        if let Some(name) = function_of(line) {
            signature = Some((index, name));
        }
        let end = line.trim_end();
        let opens = line.starts_with('{') || end.ends_with('{');
        match signature.take() {
            Some((start, name)) if opens => {
                names[start..=index].fill(Some(name.clone()));
                body = Some(name);
            }
            // A statement, or a prototype.
            Some(_) if end.ends_with(';') => {}
            other => signature = other,
        }
    }
    names
}

/// The functions that a line of C calls.
pub(super) fn called(line: &str) -> impl Iterator<Item = &str> {
    calls(line).map(|(_, name)| name)
}

/// Names before an opening parenthesis, with where they begin.
fn calls(line: &str) -> impl Iterator<Item = (usize, &str)> {
    static CALL: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r"([A-Za-z_]\w*)\s?\(").expect("a constant, compiled by a test")
    });
    const KEYWORDS: [&str; 8] = [
        "if",
        "while",
        "for",
        "switch",
        "return",
        "sizeof",
        "__attribute__",
        "defined",
    ];
    CALL.captures_iter(line).filter_map(|found| {
        let name = found.get(1)?;
        (!KEYWORDS.contains(&name.as_str())).then(|| (name.start(), name.as_str()))
    })
}

/// The macro that a `#define` line defines, if it takes arguments.
fn macro_of(line: &str) -> Option<String> {
    let rest = line
        .strip_prefix('#')?
        .trim_start()
        .strip_prefix("define")?;
    let (name, _) = rest.trim_start().split_once('(')?;
    let plain = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    name.chars().all(plain).then(|| name.to_owned())
}

/// The function whose signature a line may begin.
fn function_of(line: &str) -> Option<String> {
    /// Attributes that take arguments.
    const ATTRIBUTES: [&str; 6] = [
        "__printf",
        "__scanf",
        "__aligned",
        "__section",
        "__alloc_size",
        "__diag_push",
    ];
    let first = line.chars().next()?;
    let end = line.trim_end();
    if !(first.is_ascii_alphabetic() || first == '_') || end.ends_with([';', ':']) {
        return None;
    }
    // Only what is outside of other parentheses is the name.
    let depth = |at: usize| {
        let count = |letter| line[..at].matches(letter).count();
        count('(') - count(')').min(count('('))
    };
    let (at, name) =
        calls(line).find(|(at, name)| depth(*at) == 0 && !ATTRIBUTES.contains(name))?;
    if line[..at].contains('=') {
        return None;
    }
    // `SYSCALL_DEFINE3(mbind, ...)`, `DEFINE_IDTENTRY(exc_divide_error)`
    let is_macro = name.chars().all(|letter| !letter.is_ascii_lowercase());
    if !is_macro {
        return Some(name.to_owned());
    }
    let arguments = line[at + name.len()..].trim_start().strip_prefix('(')?;
    let argument = arguments.split([',', ')']).next()?.trim();
    let prefix = match name.trim_end_matches(|letter: char| letter.is_ascii_digit()) {
        "SYSCALL_DEFINE" => "sys_",
        "COMPAT_SYSCALL_DEFINE" => "compat_sys_",
        _ => "",
    };
    (!argument.is_empty()).then(|| format!("{prefix}{argument}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The name of the function around the line that has the word `HERE`.
    #[track_caller]
    fn around(text: &str) -> Option<String> {
        let at = text.lines().position(|line| line.contains("HERE")).unwrap();
        enclosing(text)[at].clone()
    }

    #[test]
    fn a_function_is_found_in_the_forms_that_the_kernel_has() {
        let cases = [
            ("static int f(int a)\n{\n\tHERE;\n}\n", "f"),
            ("int f(void) {\n\tHERE;\n}\n", "f"),
            ("static int __init\nf(int a,\n  int b)\n{\n\n\tHERE\n", "f"),
            ("int f(int a,\n      int HERE)\n{\n}\n", "f"),
            ("int f(void)\n{\n\tx();\nout: HERE\n", "f"),
            ("int f(void)\n{\n\tx();\n} /* HERE */\n", "f"),
            ("int f(void);\nint g(void)\n{\nHERE\n", "g"),
            ("int f(void)\n{\n#ifdef X\n\tHERE\n", "f"),
            ("__printf(1, 2) int f(char *x, ...)\n{\n\tHERE\n", "f"),
            (
                "int __attribute__((cold)) f(int (*call)(int))\n{\n\tHERE\n",
                "f",
            ),
            (
                "SYSCALL_DEFINE3(mbind, unsigned long, start,\n\t\tint, x)\n{\n\tHERE\n",
                "sys_mbind",
            ),
            ("DEFINE_IDTENTRY(exc_nmi)\n{\n\tHERE\n", "exc_nmi"),
            ("#define f(x) \\\n\tg(x); \\\n\tHERE\n", "f"),
            ("int f(void)\n{\n#define G(x) \\\n\tx\n\tHERE\n", "f"),
        ];
        for (text, name) in cases {
            assert_eq!(around(text).as_deref(), Some(name), "{text}");
        }
    }

    #[test]
    fn what_lies_between_functions_is_in_none() {
        for text in [
            "int f(void)\n{\n}\nint HERE;\n",
            "int f(void);\nint HERE;\n",
            "static const struct x y = {\n\tHERE\n};\n",
            "static struct x y = MAKE(a) {\n\tHERE\n};\n",
            "/*\nword (HERE\n */\n",
            "/*\nint f(void)\n{\n*/\nint HERE;\n",
            "struct x {\n\tint HERE;\n};\n",
            "EXPORT_SYMBOL(f);\nint HERE;\n",
            "",
        ] {
            if !text.is_empty() {
                assert_eq!(around(text), None, "{text}");
            }
        }
    }

    #[test]
    fn calls_are_names_before_parentheses_and_no_keywords() {
        let names: Vec<&str> = called("if (a(b) && sizeof(c) > d (e))").collect();
        assert_eq!(names, ["a", "d"]);
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_scanned(text in "(int |f\\(|\\)|\\{|\\}|;|#define |\\\\|/\\*|\\*/|=|ä|\n|\t){0,60}") {
            assert_eq!(enclosing(&text).len(), text.lines().count());
        }
    }
}
