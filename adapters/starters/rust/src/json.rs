//! The part of JSON that the protocol needs, so that the adapter builds without crates. Use serde_json if you have it.

use std::fmt::{self, Display, Formatter, Write};
use std::iter::Peekable;
use std::str::Chars;

/// A JSON value. All numbers of the protocol are integers of at most 64 bits.
#[derive(Clone, Debug, PartialEq)]
pub enum Json {
    Null,
    Bool(bool),
    Number(i64),
    Text(String),
    List(Vec<Json>),
    Object(Vec<(String, Json)>),
}

/// Returns an object with these fields.
pub fn object(fields: impl IntoIterator<Item = (&'static str, Json)>) -> Json {
    Json::Object(
        fields
            .into_iter()
            .map(|(name, value)| (name.into(), value))
            .collect(),
    )
}

impl Json {
    /// Returns a string.
    pub fn text(text: &str) -> Json {
        Json::Text(text.into())
    }

    /// Returns a field of an object, or null if it is missing.
    pub fn at(&self, name: &str) -> &Json {
        match self {
            Json::Object(fields) => {
                let found = fields.iter().find(|(known, _)| known == name);
                found.map_or(&Json::Null, |(_, value)| value)
            }
            _ => &Json::Null,
        }
    }

    /// Returns a string field, or "" if it is missing.
    pub fn text_at(&self, name: &str) -> &str {
        match self.at(name) {
            Json::Text(text) => text,
            _ => "",
        }
    }
}

impl Display for Json {
    fn fmt(&self, out: &mut Formatter) -> fmt::Result {
        match self {
            Json::Null => out.write_str("null"),
            Json::Bool(value) => write!(out, "{value}"),
            Json::Number(value) => write!(out, "{value}"),
            Json::Text(text) => quoted(out, text),
            Json::List(values) => {
                out.write_char('[')?;
                for (index, value) in values.iter().enumerate() {
                    write!(out, "{}{value}", if index > 0 { "," } else { "" })?;
                }
                out.write_char(']')
            }
            Json::Object(fields) => {
                out.write_char('{')?;
                for (index, (name, value)) in fields.iter().enumerate() {
                    out.write_str(if index > 0 { "," } else { "" })?;
                    quoted(out, name)?;
                    write!(out, ":{value}")?;
                }
                out.write_char('}')
            }
        }
    }
}

fn quoted(out: &mut Formatter, text: &str) -> fmt::Result {
    out.write_char('"')?;
    for sign in text.chars() {
        match sign {
            '"' | '\\' => write!(out, "\\{sign}")?,
            '\0'..='\x1f' => write!(out, "\\u{:04x}", sign as u32)?,
            _ => out.write_char(sign)?,
        }
    }
    out.write_char('"')
}

/// Parses a text.
pub fn parse(text: &str) -> Result<Json, String> {
    let mut signs = text.chars().peekable();
    let value = value(&mut signs)?;
    blanks(&mut signs);
    match signs.next() {
        None => Ok(value),
        Some(sign) => Err(format!("{sign:?} after the value")),
    }
}

type Signs<'a> = Peekable<Chars<'a>>;

fn blanks(signs: &mut Signs) {
    while signs.next_if(char::is_ascii_whitespace).is_some() {}
}

/// Skips this character and returns true, if it is the next one.
fn skip(signs: &mut Signs, expected: char) -> bool {
    blanks(signs);
    signs.next_if_eq(&expected).is_some()
}

fn value(signs: &mut Signs) -> Result<Json, String> {
    if skip(signs, '{') {
        return fields(signs).map(Json::Object);
    }
    if skip(signs, '[') {
        return values(signs).map(Json::List);
    }
    if skip(signs, '"') {
        return string(signs).map(Json::Text);
    }
    let mut word = String::new();
    while let Some(sign) = signs.next_if(|sign| sign.is_alphanumeric() || *sign == '-') {
        word.push(sign);
    }
    match word.as_str() {
        "null" => Ok(Json::Null),
        "true" => Ok(Json::Bool(true)),
        "false" => Ok(Json::Bool(false)),
        number => number
            .parse()
            .map(Json::Number)
            .map_err(|_| format!("not a value: {number:?}")),
    }
}

fn fields(signs: &mut Signs) -> Result<Vec<(String, Json)>, String> {
    let mut fields = Vec::new();
    while !skip(signs, '}') {
        if !fields.is_empty() && !skip(signs, ',') {
            return Err("a comma is missing".into());
        }
        if !skip(signs, '"') {
            return Err("a name is missing".into());
        }
        let name = string(signs)?;
        if !skip(signs, ':') {
            return Err("a colon is missing".into());
        }
        fields.push((name, value(signs)?));
    }
    Ok(fields)
}

fn values(signs: &mut Signs) -> Result<Vec<Json>, String> {
    let mut values = Vec::new();
    while !skip(signs, ']') {
        if !values.is_empty() && !skip(signs, ',') {
            return Err("a comma is missing".into());
        }
        values.push(value(signs)?);
    }
    Ok(values)
}

/// Returns the rest of a string after its quotation mark.
fn string(signs: &mut Signs) -> Result<String, String> {
    let mut text = String::new();
    loop {
        match signs.next().ok_or("the string does not end")? {
            '"' => return Ok(text),
            '\\' => match signs.next().ok_or("the escape does not end")? {
                'b' => text.push('\u{8}'),
                'f' => text.push('\u{c}'),
                'n' => text.push('\n'),
                'r' => text.push('\r'),
                't' => text.push('\t'),
                'u' => text.push(escaped(signs)?),
                sign => text.push(sign),
            },
            sign => text.push(sign),
        }
    }
}

/// Returns a character from its escape, or from the two escapes of a surrogate pair.
fn escaped(signs: &mut Signs) -> Result<char, String> {
    let mut code = unit(signs)?;
    if (0xd800..0xdc00).contains(&code) {
        let mark: String = signs.by_ref().take(2).collect();
        if mark == "\\u" {
            code = 0x10000 + ((code - 0xd800) << 10) + (unit(signs)?.wrapping_sub(0xdc00) & 0x3ff);
        }
    }
    char::from_u32(code).ok_or("half of a surrogate pair".into())
}

fn unit(signs: &mut Signs) -> Result<u32, String> {
    let digits: String = signs.by_ref().take(4).collect();
    u32::from_str_radix(&digits, 16).map_err(|error| format!("{digits:?}: {error}"))
}
