//! rskafka as an application uses it: a partition client, and fetch_records from the end of the previous records.

mod driving;
mod writer;

use driving::{drive, hexed, pinned, Done, Hand, Told};
use rskafka::client::{partition::UnknownTopicHandling, ClientBuilder};
use rskafka::record::RecordAndOffset;
use serde_json::{json, Value};
use std::sync::LazyLock;
use tokio::runtime::Runtime;

static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| Runtime::new().expect("a runtime"));

/// Passes on the records of fetch_records until the last one or its first error.
async fn fetch(told: &Told, hand: &mut Hand<'_>) -> Done {
    let client = ClientBuilder::new(vec![told.bootstrap.clone()])
        .build()
        .await?;
    let unknown = UnknownTopicHandling::Error;
    let partition = client
        .partition_client(&told.topic, told.partition, unknown)
        .await?;
    let mut offset = told.offset;
    loop {
        let (records, _high_watermark) =
            partition.fetch_records(offset, 1..50_000_000, 500).await?;
        for record in records {
            offset = record.offset + 1;
            if hand(record.record.key.as_deref(), shown(&record)) {
                return Ok(());
            }
        }
    }
}

fn shown(handed: &RecordAndOffset) -> Value {
    json!({
        "offset": handed.offset.to_string(),
        "timestamp": handed.record.timestamp.timestamp_millis().to_string(),
        "value": hexed(handed.record.value.as_deref()),
    })
}

fn main() {
    let version = pinned(include_str!("../Cargo.toml"), "rskafka");
    drive(
        version,
        |told, hand| RUNTIME.block_on(fetch(told, hand)),
        |told, asked| RUNTIME.block_on(writer::produce(told, asked)),
    );
}
