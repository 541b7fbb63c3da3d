//! Shared code of the Rust drivers: reads topics from standard input, writes the application's records and errors.

#![allow(dead_code)] // each client uses only a part

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::{json, Value};
use std::error::Error;
use std::fmt::Display;
use std::io::{stdin, stdout, Write};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::str::FromStr;
use std::thread;

const END: &[u8] = b"conformance.end"; // key of the record that ends a topic

/// A line of the suite: a topic to consume or to write to.
#[derive(Deserialize)]
pub struct Task {
    pub topic: String,
    pub partition: i32,
    pub bootstrap: String,
    #[serde(default, deserialize_with = "number")]
    pub offset: i64,
    /// True to consume as a member of the group with the topic's name, and to commit.
    #[serde(default)]
    pub group: bool,
    #[serde(default)]
    pub isolation: String,
    pub produce: Option<ProduceOptions>,
}

/// The batches to write to a topic, one after the other or all together.
#[derive(Deserialize)]
pub struct ProduceOptions {
    pub batches: Vec<Vec<Row>>,
    pub together: bool,
    #[serde(rename = "batchBytes")]
    pub batch_bytes: u32,
    pub compression: String,
    pub idempotent: bool,
    pub transactional: bool,
    /// The end of the transaction after each batch: `commit`, `abort`, or "" to continue.
    pub ends: Vec<String>,
    /// True if errors of a batch are ignored.
    #[serde(rename = "givenUp")]
    pub given_up: Vec<bool>,
}

impl ProduceOptions {
    /// The records to send before a flush: those of a batch, or all.
    pub fn in_turn(&self) -> Vec<Vec<&Row>> {
        match self.together {
            true => vec![self.batches.iter().flatten().collect()],
            false => self
                .batches
                .iter()
                .map(|rows| rows.iter().collect())
                .collect(),
        }
    }

    /// Returns an error for a record that the client's interface cannot express.
    pub fn cannot(
        &self,
        matches: fn(&Row) -> bool,
        part: &'static str,
    ) -> Result<(), CannotExpress> {
        match self.batches.iter().flatten().any(matches) {
            true => Err(CannotExpress(part)),
            false => Ok(()),
        }
    }
}

#[derive(Deserialize)]
pub struct Row {
    #[serde(deserialize_with = "number")]
    pub timestamp: i64,
    #[serde(deserialize_with = "octets")]
    pub key: Option<Vec<u8>>,
    #[serde(deserialize_with = "octets")]
    pub value: Option<Vec<u8>>,
    pub headers: Vec<HeaderRow>,
}

#[derive(Deserialize)]
pub struct HeaderRow {
    pub key: String,
    #[serde(deserialize_with = "octets")]
    pub value: Option<Vec<u8>>,
}

/// Writes a record in the notation of `read`, and returns true for the last one of the topic.
pub type Report<'a> = dyn FnMut(Option<&[u8]>, Value) -> bool + 'a;

pub type Done = Result<(), Box<dyn Error>>;

/// A record that the client's interface cannot express, with the part.
#[derive(Debug)]
pub struct CannotExpress(pub &'static str);

impl Display for CannotExpress {
    fn fmt(&self, to: &mut std::fmt::Formatter) -> std::fmt::Result {
        to.write_str(self.0)
    }
}

impl Error for CannotExpress {}

/// Consumes or writes each topic of the suite in a separate thread, until the input ends.
pub fn drive(
    version: &str,
    consume: fn(&Task, &mut Report) -> Done,
    produce: fn(&Task, &ProduceOptions) -> Done,
) {
    write_line(json!({"version": version}));
    for line in stdin().lines() {
        let task: Task = serde_json::from_str(&line.expect("a line")).expect("a task");
        thread::spawn(move || serve(&task, consume, produce));
    }
}

/// Processes a topic until its end. A panic is a crash; an error is for the application.
fn serve(
    task: &Task,
    consume: fn(&Task, &mut Report) -> Done,
    produce: fn(&Task, &ProduceOptions) -> Done,
) {
    let topic = &task.topic;
    let mut report = |key: Option<&[u8]>, mut record: Value| {
        record["key"] = hexed(key);
        write_line(json!({"topic": topic, "record": record}));
        key == Some(END)
    };
    let work = || match &task.produce {
        Some(options) => produce(task, options),
        None => consume(task, &mut report),
    };
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(())) => write_line(json!({"topic": topic, "end": true})),
        Ok(Err(error)) if error.is::<CannotExpress>() => {
            write_line(json!({"topic": topic, "unsupported": error.to_string()}))
        }
        Ok(Err(error)) => {
            write_line(json!({"topic": topic, "error": "other", "message": error.to_string()}))
        }
        Err(panic) => {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or(panic.downcast_ref::<&str>().copied());
            write_line(json!({"topic": topic, "crash": text.unwrap_or("a panic")}));
        }
    }
}

/// Returns bytes as hex digits, or null for None.
pub fn hexed(bytes: Option<&[u8]>) -> Value {
    bytes
        .map(|bytes| {
            bytes
                .iter()
                .map(|byte| format!("{byte:02x}"))
                .collect::<String>()
        })
        .into()
}

/// Returns hex digits as bytes, or None for null.
fn octets<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Vec<u8>>, D::Error> {
    let digits = Option::<String>::deserialize(from)?;
    let octet = |digits: &[u8]| {
        let digits = std::str::from_utf8(digits).map_err(D::Error::custom)?;
        u8::from_str_radix(digits, 16).map_err(D::Error::custom)
    };
    let octets = digits.map(|digits| digits.as_bytes().chunks(2).map(octet).collect());
    octets.transpose()
}

/// Reads a number from a string.
fn number<'de, D: Deserializer<'de>>(from: D) -> Result<i64, D::Error> {
    i64::from_str(&String::deserialize(from)?).map_err(D::Error::custom)
}

/// Returns the version of a crate in a manifest.
pub fn pinned<'a>(manifest: &'a str, name: &str) -> &'a str {
    let line = manifest
        .lines()
        .find(|line| line.starts_with(&format!("{name} =")));
    let pin = line
        .and_then(|line| line.split_once("\"="))
        .expect("a pin")
        .1;
    pin.split_once('"').expect("a pin").0
}

fn write_line(line: Value) {
    let mut out = stdout().lock();
    writeln!(out, "{line}")
        .and_then(|()| out.flush())
        .expect("an output");
}
