//! A starter adapter for kafka-conformance. It answers each line of JSON on standard input with one on standard output.
//!
//!     cargo build --release
//!     conformance doctor command:target/release/adapter    checks the adapter
//!     conformance run command:target/release/adapter       judges the code behind it
//!
//! Replace the sample code in the rows of the table `TYPES` by calls of YOUR LIBRARY, and add a row per further type.
//! Types without a row are skipped and counted as skipped. docs/adapters.md has the types and their notation.

mod json;

use json::{object, Json};
use std::io::{self, BufRead, Write};
use std::panic::{catch_unwind, AssertUnwindSafe};

// --- YOUR LIBRARY: replace this sample code --------------------------------------------------------------

/// A value at the start of the bytes, and the number of consumed bytes; `None` if your library does not report it.
type Decode = fn(&[u8]) -> Result<(Json, Option<usize>), Refusal>;
type Encode = fn(&Json) -> Result<Vec<u8>, Refusal>;

/// The functions that read and write each type; `None` is not claimed.
const TYPES: &[(&str, Option<Decode>, Option<Encode>)] = &[
    ("INT32", Some(decode_int32), Some(encode_int32)),
    ("VARINT", Some(decode_varint), Some(encode_varint)),
    ("STRING", Some(decode_string), Some(encode_string)),
];

/// Names your library, and by `via` the judged call: `public: ` for a call of applications, `internal: ` for one on the
/// library's own path to the wire.
fn about() -> Vec<(&'static str, Json)> {
    vec![
        ("name", Json::text("my-library")),
        ("version", Json::text("0.1")),
        ("language", Json::text("rust")),
        (
            "via",
            object([
                ("decode", Json::text("public: adapter::decode")),
                ("encode", Json::text("public: adapter::encode")),
            ]),
        ),
    ]
}

fn decode_int32(data: &[u8]) -> Result<(Json, Option<usize>), Refusal> {
    let bytes = data.first_chunk::<4>();
    let bytes = bytes.ok_or(malformed("the bytes end inside the number"))?;
    Ok((Json::Number(i32::from_be_bytes(*bytes).into()), Some(4)))
}

fn encode_int32(value: &Json) -> Result<Vec<u8>, Refusal> {
    Ok(int32(value)?.to_be_bytes().to_vec())
}

fn decode_varint(data: &[u8]) -> Result<(Json, Option<usize>), Refusal> {
    let mut bits = 0u32;
    for at in 0..5 {
        let byte = data.get(at);
        let byte = *byte.ok_or(malformed("the bytes end inside the varint"))?;
        bits |= u32::from(byte & 0x7f) << (7 * at);
        if byte < 0x80 {
            let value = (bits >> 1) as i32 ^ -((bits & 1) as i32);
            return Ok((Json::Number(value.into()), Some(at + 1)));
        }
    }
    Err(malformed("the varint is longer than 5 bytes"))
}

fn encode_varint(value: &Json) -> Result<Vec<u8>, Refusal> {
    let number = int32(value)?;
    let mut bits = ((number << 1) ^ (number >> 31)) as u32;
    let mut out = Vec::new();
    while bits > 0x7f {
        out.push(bits as u8 & 0x7f | 0x80);
        bits >>= 7;
    }
    out.push(bits as u8);
    Ok(out)
}

fn decode_string(data: &[u8]) -> Result<(Json, Option<usize>), Refusal> {
    let length = data.first_chunk::<2>();
    let length = length.ok_or(malformed("the bytes end inside the length"))?;
    let length = i16::from_be_bytes(*length);
    let stop = usize::try_from(length).map_err(|_| malformed("the length is negative"))? + 2;
    let text = data.get(2..stop);
    let text = text.ok_or(malformed("the bytes end inside the string"))?;
    Ok((Json::text(&String::from_utf8_lossy(text)), Some(stop)))
}

fn encode_string(value: &Json) -> Result<Vec<u8>, Refusal> {
    let Json::Text(text) = value else {
        return Err(invalid("not a string"));
    };
    let length = i16::try_from(text.len());
    let length = length.map_err(|_| invalid("a string has at most 32767 bytes"))?;
    Ok([&length.to_be_bytes(), text.as_bytes()].concat())
}

fn int32(value: &Json) -> Result<i32, Refusal> {
    match value {
        Json::Number(number) => i32::try_from(*number).map_err(|_| invalid("not a 32-bit number")),
        _ => Err(invalid("not a number")),
    }
}

// --- the adapter -----------------------------------------------------------------------------------------

/// An error of your library with its class: malformed, corrupt, unsupported-codec, invalid-value or other.
struct Refusal {
    error: &'static str,
    message: String,
}

fn malformed(message: &str) -> Refusal {
    Refusal {
        error: "malformed",
        message: message.into(),
    }
}

fn invalid(message: &str) -> Refusal {
    Refusal {
        error: "invalid-value",
        message: message.into(),
    }
}

type Answer = Vec<(&'static str, Json)>;

fn answer(request: &Json) -> Result<Answer, Refusal> {
    let (op, name) = (request.text_at("op"), request.text_at("type"));
    if op == "describe" {
        return Ok(describe());
    }
    let row = TYPES.iter().find(|(known, ..)| *known == name);
    match (op, row) {
        ("decode", Some((_, Some(decode), _))) => {
            let (value, consumed) = decode(&bytes_of(request.text_at("hex")))?;
            let mut response = vec![("ok", Json::Bool(true)), ("value", value)];
            response.extend(consumed.map(|count| ("consumed", Json::Number(count as i64))));
            Ok(response)
        }
        ("encode", Some((_, _, Some(encode)))) => {
            let data = encode(request.at("value"))?;
            let digits: String = data.iter().map(|byte| format!("{byte:02x}")).collect();
            Ok(vec![("ok", Json::Bool(true)), ("hex", Json::Text(digits))])
        }
        _ => Ok(vec![(
            "unsupported",
            Json::Text(format!("no {op} of {name}")),
        )]),
    }
}

fn describe() -> Answer {
    let decoded = TYPES.iter().filter(|row| row.1.is_some());
    let encoded = TYPES.iter().filter(|row| row.2.is_some());
    let supports = object([
        (
            "decode",
            Json::List(decoded.map(|row| Json::text(row.0)).collect()),
        ),
        (
            "encode",
            Json::List(encoded.map(|row| Json::text(row.0)).collect()),
        ),
    ]);
    let mut response = about();
    response.extend([
        ("ok", Json::Bool(true)),
        ("protocol", Json::Number(1)),
        ("supports", supports),
    ]);
    response
}

fn bytes_of(digits: &str) -> Vec<u8> {
    let pairs = (0..digits.len()).step_by(2);
    pairs
        .map(|at| u8::from_str_radix(&digits[at..at + 2], 16).expect("hex digits"))
        .collect()
}

/// Reports a rejection, and a panic as a crash.
fn answer_or_crash(request: &Json) -> Answer {
    match catch_unwind(AssertUnwindSafe(|| answer(request))) {
        Ok(Ok(response)) => response,
        Ok(Err(refusal)) => vec![
            ("ok", Json::Bool(false)),
            ("error", Json::text(refusal.error)),
            ("message", Json::Text(refusal.message)),
        ],
        Err(panic) => {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or(panic.downcast_ref::<&str>().copied());
            vec![("crash", Json::text(text.unwrap_or("a panic")))]
        }
    }
}

fn main() -> io::Result<()> {
    let mut out = io::stdout().lock();
    for line in io::stdin().lock().lines() {
        let request = json::parse(&line?).map_err(io::Error::other)?;
        let mut response = answer_or_crash(&request);
        response.push(("id", request.at("id").clone()));
        writeln!(out, "{}", object(response))?;
        out.flush()?;
    }
    Ok(())
}
