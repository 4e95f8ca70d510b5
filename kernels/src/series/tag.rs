//! What a subject says before its title: `Re:`, `[PATCH RFC v3 2/5]`.
//!
//! Pure text; nothing here knows of mails.

use crate::spec::PatchNumber;

/// A subject, taken apart.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Tag {
    /// Whether it answers or forwards another mail.
    pub(crate) reply: bool,
    /// Whether it says that the mail is a patch (or a series' cover letter).
    pub(crate) patch: bool,
    /// The version, without its `v`; `1` if none is named.
    pub(crate) version: String,
    /// Which part of its series; 0 is the cover letter.
    pub(crate) number: Option<PatchNumber>,
    /// The rest.
    pub(crate) title: String,
}

/// How answers and forwarded mails begin, in the languages of common mail programs.
const REPLIES: [&str; 9] = ["re", "aw", "sv", "antw", "ref", "fw", "fwd", "wg", "tr"];

impl Tag {
    /// Reads a subject.
    pub(crate) fn parse(subject: &str) -> Self {
        let mut tag = Self {
            version: "1".to_owned(),
            ..Self::default()
        };
        let mut rest = subject.trim();
        loop {
            if let Some(after) = after_reply(rest) {
                tag.reply = true;
                rest = after;
            } else if let Some((inside, after)) =
                rest.strip_prefix('[').and_then(|text| text.split_once(']'))
            {
                tag.bracket(inside);
                rest = after.trim_start();
            } else {
                break;
            }
        }
        tag.title = rest.split_whitespace().collect::<Vec<_>>().join(" ");
        tag
    }

    fn bracket(&mut self, inside: &str) {
        for word in inside.split(|letter: char| letter.is_whitespace() || letter == ',') {
            let lower = word.to_ascii_lowercase();
            let rest = match lower.strip_prefix("patch") {
                Some(rest) => {
                    self.patch = true;
                    rest.strip_prefix('-').unwrap_or(rest)
                }
                None => &lower,
            };
            if let Some(version) = rest.strip_prefix('v')
                && version.starts_with(|letter: char| letter.is_ascii_digit())
                && version
                    .chars()
                    .all(|letter| letter.is_ascii_digit() || letter == '.')
            {
                version.clone_into(&mut self.version);
            } else if let Some(number) = PatchNumber::parse(rest) {
                self.number = Some(number);
                self.patch = true;
            }
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
            ("[GIT PULL] x", (false, false, "1", "", "x")),
            ("[PATCH", (false, false, "1", "", "[PATCH")),
            ("numa: [x] y", (false, false, "1", "", "numa: [x] y")),
            ("[PATCH 3/2] a", (false, true, "1", "3/2", "a")),
            ("[PATCH 1/0] a", (false, true, "1", "", "a")),
            ("[PATCH 2024/10/11] a", (false, true, "1", "", "a")),
            ("", (false, false, "1", "", "")),
        ];
        for (subject, expected) in cases {
            let tag = Tag::parse(subject);
            let number = tag.number.map(|number| number.to_string());
            let read = (
                tag.reply,
                tag.patch,
                tag.version.as_str(),
                number.as_deref().unwrap_or_default(),
                tag.title.as_str(),
            );
            assert_eq!(read, expected, "{subject:?}");
        }
    }
}
