//! Where in a YAML text a value stands.
//!
//! The deserializer reports the place of a value that it refuses. A mistake that is found
//! later (an unknown task, a missing control) is known by its path, such as
//! `steps[1].run[0].task`, and this index gives the place of that path. It also finds keys
//! that are given twice.

use std::collections::{BTreeMap, BTreeSet};

use saphyr_parser::{Event, Parser, Span};

/// A place in a text: line and column count from 1, `length` in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// Line, from 1.
    pub line: usize,
    /// Column, from 1, in characters.
    pub column: usize,
    /// Characters of the value on that line, at least 1.
    pub length: usize,
}

impl Place {
    /// The beginning of a text.
    pub const START: Place = Place {
        line: 1,
        column: 1,
        length: 1,
    };
}

/// The places of all keys and values of one document, and the keys that are given twice.
#[derive(Debug, Default)]
pub struct Index {
    places: BTreeMap<String, Place>,
    keys: BTreeMap<String, Place>,
    /// Keys that are given twice: their paths, and where the second one stands.
    pub doubled: Vec<(String, Place)>,
}

/// The deepest nesting of brackets that is read; a scenario needs fewer than ten levels.
const DEEPEST: usize = 64;

/// Where brackets are nested deeper than in any scenario. Both parsers take a time that grows
/// with the square of the depth, so it is checked before. Brackets within strings and comments
/// count, too; they come in pairs or are few.
pub fn too_deep(text: &str) -> Option<Place> {
    let mut depth = 0_usize;
    for (line, letters) in text.lines().enumerate() {
        for (column, letter) in letters.chars().enumerate() {
            depth = match letter {
                '[' | '{' => depth + 1,
                ']' | '}' => depth.saturating_sub(1),
                _ => depth,
            };
            if depth > DEEPEST {
                let (line, column) = (line + 1, column + 1);
                return Some(Place {
                    line,
                    column,
                    length: 1,
                });
            }
        }
    }
    None
}

enum Level {
    Sequence { path: String, next: usize },
    Mapping { path: String, key: Option<String> },
}

/// What an error is about: a key, or its value, by path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum At {
    /// The key.
    Key(String),
    /// The value.
    Value(String),
}

impl At {
    /// The same within the mapping at `path`.
    pub fn within(self, path: &str) -> Self {
        match self {
            Self::Key(key) if key.is_empty() => Self::Key(path.to_owned()),
            Self::Key(key) => Self::Key(join(path, &key)),
            Self::Value(key) => Self::Value(join(path, &key)),
        }
    }
}

impl Index {
    /// Where that stands which an error is about.
    pub fn at(&self, at: &At) -> Place {
        match at {
            At::Key(path) => self.key(path).unwrap_or_else(|| self.find(path)),
            At::Value(path) => self.find(path),
        }
    }

    /// Indexes a text. One that is no YAML gives the places up to the error; the
    /// deserializer reports that error.
    pub fn new(text: &str) -> Index {
        let mut index = Index::default();
        let mut levels: Vec<Level> = Vec::new();
        for (event, span) in Parser::new_from_str(text).map_while(Result::ok) {
            match event {
                Event::MappingStart(..) => {
                    let path = index.enter(&mut levels, span, 1);
                    levels.push(Level::Mapping { path, key: None });
                }
                Event::SequenceStart(..) => {
                    let path = index.enter(&mut levels, span, 1);
                    levels.push(Level::Sequence { path, next: 0 });
                }
                Event::MappingEnd | Event::SequenceEnd => {
                    levels.pop();
                }
                Event::Scalar(value, ..) => {
                    let length = span.end.index().saturating_sub(span.start.index()).max(1);
                    if let Some(Level::Mapping {
                        path,
                        key: key @ None,
                    }) = levels.last_mut()
                    {
                        let full = join(path, &value);
                        // Until its value comes, a key's own place is the best one.
                        let place = place(span, length);
                        index.places.insert(full.clone(), place);
                        if index.keys.insert(full.clone(), place).is_some() {
                            index.doubled.push((full, place));
                        }
                        *key = Some(value.into_owned());
                    } else {
                        index.enter(&mut levels, span, length);
                    }
                }
                Event::Alias(_) => {
                    index.enter(&mut levels, span, 1);
                }
                _ => {}
            }
        }
        index
    }

    // Names the value that begins here, and notes its place.
    fn enter(&mut self, levels: &mut [Level], span: Span, length: usize) -> String {
        let path = match levels.last_mut() {
            None => String::new(),
            Some(Level::Sequence { path, next }) => {
                *next += 1;
                format!("{path}[{}]", *next - 1)
            }
            Some(Level::Mapping { path, key }) => join(path, &key.take().unwrap_or_default()),
        };
        self.places.insert(path.clone(), place(span, length));
        path
    }

    /// The keys of the mapping at a path.
    pub fn keys(&self, path: &str) -> BTreeSet<String> {
        let inside = |full: &String| {
            let rest = full.strip_prefix(path)?;
            let key = if path.is_empty() {
                rest
            } else {
                rest.strip_prefix('.')?
            };
            (!key.contains(['.', '['])).then(|| key.to_owned())
        };
        self.keys.keys().filter_map(inside).collect()
    }

    /// The place of a key, if the text has it.
    pub fn key(&self, path: &str) -> Option<Place> {
        self.keys.get(path).copied()
    }

    /// The place of a path, or of the nearest value around it.
    pub fn find(&self, path: &str) -> Place {
        let mut path = path;
        loop {
            if let Some(place) = self.places.get(path) {
                return *place;
            }
            match path.rfind(['.', '[']) {
                Some(end) => path = &path[..end],
                None if path.is_empty() => return Place::START,
                None => path = "",
            }
        }
    }
}

fn join(path: &str, key: &str) -> String {
    if path.is_empty() {
        key.to_owned()
    } else {
        format!("{path}.{key}")
    }
}

fn place(span: Span, length: usize) -> Place {
    Place {
        line: span.start.line(),
        column: span.start.col() + 1,
        length,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "a: 1\nb:\n  - { c: two, d: 3 }\n  - plain\nb2: {}\n";

    #[test]
    fn brackets_within_brackets_are_counted() {
        assert_eq!(too_deep(TEXT), None);
        assert_eq!(too_deep(&"[a] {b: c}\n".repeat(1000)), None);
        let place = too_deep(&format!("a: 1\nb: {}", "{a: ".repeat(60_000)));
        let found = place.map(|place| (place.line, place.column));
        assert_eq!(found, Some((2, 4 + 4 * DEEPEST)));
    }

    #[test]
    fn a_path_has_the_place_of_its_value() {
        let index = Index::new(TEXT);
        assert_eq!(
            index.find("b[0].c"),
            Place {
                line: 3,
                column: 10,
                length: 3
            }
        );
        assert_eq!(
            index.find("b[1]"),
            Place {
                line: 4,
                column: 5,
                length: 5
            }
        );
    }

    #[test]
    fn an_unknown_path_has_the_place_around_it() {
        let index = Index::new(TEXT);
        assert_eq!(index.find("b[0].zzz").line, 3);
        assert_eq!(index.find("nowhere").line, 1);
    }

    #[test]
    fn a_key_given_twice_is_found_where_it_stands_again() {
        let index = Index::new("a: 1\nb: 2\na: 3\n");
        assert_eq!(
            index.doubled,
            [(
                "a".to_owned(),
                Place {
                    line: 3,
                    column: 1,
                    length: 1
                }
            )]
        );
    }
}
