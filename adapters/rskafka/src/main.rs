//! rskafka as an application uses it: a partition client, and fetch_records from the end of the previous records.

mod driving;
mod writer;

use driving::{drive, hexed, pinned, Done, Report, Task};
use rskafka::client::{partition::UnknownTopicHandling, ClientBuilder};
use rskafka::record::RecordAndOffset;
use serde_json::{json, Value};
use std::sync::LazyLock;
use tokio::runtime::Runtime;

static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| Runtime::new().expect("a runtime"));

/// Passes on the records of fetch_records until the last one or its first error.
async fn fetch(task: &Task, report: &mut Report<'_>) -> Done {
    let client = ClientBuilder::new(vec![task.bootstrap.clone()])
        .build()
        .await?;
    let unknown = UnknownTopicHandling::Error;
    let partition = client
        .partition_client(&task.topic, task.partition, unknown)
        .await?;
    let mut offset = task.offset;
    loop {
        let (records, _high_watermark) =
            partition.fetch_records(offset, 1..50_000_000, 500).await?;
        for record in records {
            offset = record.offset + 1;
            if report(record.record.key.as_deref(), shown(&record)) {
                return Ok(());
            }
        }
    }
}

fn shown(consumed: &RecordAndOffset) -> Value {
    json!({
        "offset": consumed.offset.to_string(),
        "timestamp": consumed.record.timestamp.timestamp_millis().to_string(),
        "value": hexed(consumed.record.value.as_deref()),
    })
}

fn main() {
    let version = pinned(include_str!("../Cargo.toml"), "rskafka");
    drive(
        version,
        |task, report| RUNTIME.block_on(fetch(task, report)),
        |task, options| RUNTIME.block_on(writer::produce(task, options)),
    );
}
