//! What the drivers in Rust share: topics come in on standard input, what an application is handed goes out.

use serde_json::{json, Value};
use std::error::Error;
use std::io::{stdin, stdout, Write};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::thread;

const END: &[u8] = b"conformance.end"; // the key of the record that ends a topic

/// A line of the suite.
pub struct Told {
    pub topic: String,
    pub partition: i32,
    pub offset: i64,
    #[allow(dead_code)] // not every client has more than one
    pub isolation: String,
    pub bootstrap: String,
}

/// Takes a record in the notation of `read`, and tells whether it was the last one of the topic.
pub type Hand<'a> = dyn FnMut(Option<&[u8]>, Value) -> bool + 'a;

type Consumed = Result<(), Box<dyn Error>>;

/// Consumes each topic that the suite names, each in a thread of its own, until the suite ends the input.
pub fn drive(version: &str, consume: fn(&Told, &mut Hand) -> Consumed) {
    say(json!({"version": version}));
    for line in stdin().lines() {
        let line: Value = serde_json::from_str(&line.expect("a line")).expect("an object");
        let text = |key: &str| line[key].as_str().expect("a text").to_string();
        let told = Told {
            topic: text("topic"),
            partition: line["partition"].as_i64().expect("a number") as i32,
            offset: text("offset").parse().expect("a number"),
            isolation: text("isolation"),
            bootstrap: text("bootstrap"),
        };
        thread::spawn(move || one(&told, consume));
    }
}

/// Consumes a topic to its end. A panic is a crash; an error is what an application is to handle.
fn one(told: &Told, consume: fn(&Told, &mut Hand) -> Consumed) {
    let topic = &told.topic;
    let mut hand = |key: Option<&[u8]>, mut record: Value| {
        record["key"] = hexed(key);
        say(json!({"topic": topic, "record": record}));
        key == Some(END)
    };
    match catch_unwind(AssertUnwindSafe(|| consume(told, &mut hand))) {
        Ok(Ok(())) => say(json!({"topic": topic, "end": true})),
        Ok(Err(error)) => {
            say(json!({"topic": topic, "error": "other", "message": error.to_string()}))
        }
        Err(panic) => {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or(panic.downcast_ref::<&str>().copied());
            say(json!({"topic": topic, "crash": text.unwrap_or("a panic")}));
        }
    }
}

/// Bytes as hex digits; null where there are none.
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

/// The version at which a manifest pins a crate.
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

fn say(line: Value) {
    let mut out = stdout().lock();
    writeln!(out, "{line}")
        .and_then(|()| out.flush())
        .expect("an output");
}
