//! What a subject says before its title: `Re:`, `[PATCH RFC v3 2/5]`.
//!
//! Pure text; nothing here knows of mails.

use crate::spec::PatchNumber;

/// A subject, taken apart.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct SubjectPrefix {
    /// Whether it answers or forwards another mail.
    pub(crate) reply: bool,
    /// Whether it says that the mail is a patch (or a series' cover letter).
    pub(crate) patch: bool,
    /// The version, without its `v`; `1` if none is named.
    pub(crate) version: String,
    /// Which part of its series; 0 is the cover letter.
    pub(crate) number: Option<PatchNumber>,
    /// What stands for a number and cannot be read: `1/n`, `1.5/2`.
    pub(crate) unreadable: Option<String>,
    /// The rest.
    pub(crate) title: String,
}

/// How answers and forwarded mails begin, in the languages of common mail programs.
const REPLIES: [&str; 9] = ["re", "aw", "sv", "antw", "ref", "fw", "fwd", "wg", "tr"];

impl SubjectPrefix {
    /// Reads a subject.
    pub(crate) fn parse(subject: &str) -> Self {
        let mut prefix = Self {
            version: "1".to_owned(),
            ..Self::default()
        };
        let mut rest = subject.trim();
        loop {
            if let Some(after) = after_reply(rest) {
                prefix.reply = true;
                rest = after;
            } else if let Some((inside, after)) =
                rest.strip_prefix('[').and_then(|text| text.split_once(']'))
            {
                prefix.bracket(inside);
                rest = after.trim_start();
            } else {
                break;
            }
        }
        prefix.title = rest.split_whitespace().collect::<Vec<_>>().join(" ");
        prefix
    }

    fn bracket(&mut self, inside: &str) {
        // hg writes `1 of 2`.
        let inside = inside.to_ascii_lowercase().replace(" of ", "/");
        for word in inside.split(|letter: char| letter.is_whitespace() || letter == ',') {
            let rest = match word.strip_prefix("patch") {
                Some(rest) => {
                    self.patch = true;
                    rest.strip_prefix('-').unwrap_or(rest)
                }
                None => word,
            };
            let digits = |text: &str| text.starts_with(|letter: char| letter.is_ascii_digit());
            if let Some(version) = rest.strip_prefix('v')
                && digits(version)
                && version
                    .chars()
                    .all(|letter| letter.is_ascii_digit() || letter == '.')
            {
                version.clone_into(&mut self.version);
            } else if let Some(number) = PatchNumber::parse(rest) {
                self.number = Some(number);
                self.patch = true;
            } else if let Some((part, of)) = rest.split_once('/')
                && digits(part)
                && (matches!(of, "n" | "m" | "x" | "?") || of.parse::<u32>().is_ok_and(|of| of > 0))
            {
                self.unreadable = Some(rest.to_owned());
            }
        }
        if self.number.is_some() {
            self.unreadable = None;
        }
    }
}

/// What follows a `Re:`; also in its forms `Re[2]:` and `RE :`.
fn after_reply(text: &str) -> Option<&str> {
    let (word, rest) = text.split_once(':')?;
    let word = word.trim_end();
    let word = match word.split_once('[') {
        Some((word, count)) if count.trim_end_matches(']').parse::<u32>().is_ok() => word,
        _ => word,
    };
    REPLIES
        .iter()
        .any(|reply| word.eq_ignore_ascii_case(reply))
        .then(|| rest.trim_start())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_that_people_use() {
        // Subject; reply, patch, version, number, title.
        let cases = [
            ("[PATCH] a: b", (false, true, "1", "", "a: b")),
            ("[PATCH 2/5] a: b", (false, true, "1", "2/5", "a: b")),
            ("[PATCH RFC v3 2/5] a", (false, true, "3", "2/5", "a")),
            ("[RFC PATCH V3 02/05] a", (false, true, "3", "2/5", "a")),
            ("[RFC][PATCH 1/3] a", (false, true, "1", "1/3", "a")),
            ("[RFC 1/3] a", (false, true, "1", "1/3", "a")),
            ("[PATCHv2 1/3] a", (false, true, "2", "1/3", "a")),
            ("[PATCH-v2 1/3] a", (false, true, "2", "1/3", "a")),
            ("[patch 0/3] a", (false, true, "1", "0/3", "a")),
            ("[net-next,v2,1/3] a", (false, true, "2", "1/3", "a")),
            ("[PATCH v2.1 1/3] a", (false, true, "2.1", "1/3", "a")),
            ("[PATCH 6.1 12/345] a", (false, true, "1", "12/345", "a")),
            ("[PATCH v5 -next 1/2] a", (false, true, "5", "1/2", "a")),
            ("[list] [PATCH 1/2] a", (false, true, "1", "1/2", "a")),
            ("Re: [PATCH 1/2] a", (true, true, "1", "1/2", "a")),
            ("[list] Re: [PATCH] a", (true, true, "1", "", "a")),
            ("AW: Re[2]: [PATCH] a", (true, true, "1", "", "a")),
            ("Fwd: a [PATCH] b", (true, false, "1", "", "a [PATCH] b")),
            ("[PATCH 1 of 2] a", (false, true, "1", "1/2", "a")),
            ("[PATCH1/2] a", (false, true, "1", "1/2", "a")),
            ("[PATCH 6.1/6.6 1/2] a", (false, true, "1", "1/2", "a")),
            ("[GIT PULL] x", (false, false, "1", "", "x")),
            ("[PATCH", (false, false, "1", "", "[PATCH")),
            ("numa: [x] y", (false, false, "1", "", "numa: [x] y")),
            ("[PATCH 3/2] a", (false, true, "1", "3/2", "a")),
            ("[PATCH 1/0] a", (false, true, "1", "", "a")),
            ("[PATCH 2024/10/11] a", (false, true, "1", "", "a")),
            ("", (false, false, "1", "", "")),
        ];
        for (subject, expected) in cases {
            let prefix = SubjectPrefix::parse(subject);
            let number = prefix.number.map(|number| number.to_string());
            let read = (
                prefix.reply,
                prefix.patch,
                prefix.version.as_str(),
                number.as_deref().unwrap_or_default(),
                prefix.title.as_str(),
            );
            assert_eq!(read, expected, "{subject:?}");
        }
    }

    #[test]
    fn numbers_that_cannot_be_read_are_kept() {
        for (subject, expected) in [
            ("[PATCH 1/n] a", Some("1/n")),
            ("[PATCH 1.5/2] a", Some("1.5/2")),
            ("[PATCH 6.1/6.6 1/2] a", None),
            ("[PATCH sched/urgent] a", None),
            ("[PATCH 1/2] a", None),
        ] {
            let prefix = SubjectPrefix::parse(subject);
            assert_eq!(prefix.unreadable.as_deref(), expected, "{subject}");
        }
    }
}
