//! Records of rdkafka: consumed ones in the notation of the suite, and the ones to write.

use crate::driving::{hexed, Row, Task};
use rdkafka::message::{BorrowedMessage, Header, Headers, Message, OwnedHeaders, Timestamp};
use rdkafka::producer::FutureRecord;
use serde_json::{json, Value};

pub fn shown(message: &BorrowedMessage) -> Value {
    let headers = message.headers();
    let headers = headers.iter().flat_map(|all| all.iter());
    let mut record = json!({
        "offset": message.offset().to_string(),
        "timestamp": message.timestamp().to_millis().unwrap_or(-1).to_string(),
        "value": hexed(message.payload()),
        "headers": headers.map(|one| json!({"key": one.key, "value": hexed(one.value)})).collect::<Vec<_>>(),
    });
    match message.timestamp() {
        Timestamp::NotAvailable => (), // -1 for any type
        Timestamp::CreateTime(_) => record["timestampType"] = "CreateTime".into(),
        Timestamp::LogAppendTime(_) => record["timestampType"] = "LogAppendTime".into(),
    }
    record
}

pub fn client_record<'a>(task: &'a Task, row: &'a Row) -> FutureRecord<'a, Vec<u8>, Vec<u8>> {
    let headers = row.headers.iter().fold(OwnedHeaders::new(), |all, header| {
        all.insert(Header {
            key: &header.key,
            value: header.value.as_ref(),
        })
    });
    FutureRecord {
        topic: &task.topic,
        partition: Some(task.partition),
        payload: row.value.as_ref(),
        key: row.key.as_ref(),
        timestamp: Some(row.timestamp),
        headers: Some(headers),
    }
}
