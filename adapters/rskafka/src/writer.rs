//! rskafka as an application uses it to write: produce, which sends one batch.

use crate::driving::{CannotExpress, Done, ProduceOptions, Row, Task};
use chrono::DateTime;
use rskafka::client::partition::{Compression, UnknownTopicHandling};
use rskafka::client::ClientBuilder;
use rskafka::record::Record;

/// Writes batches, each with a separate call.
pub async fn produce(task: &Task, options: &ProduceOptions) -> Done {
    let batches: Result<Vec<Vec<Record>>, CannotExpress> = options
        .batches
        .iter()
        .map(|rows| rows.iter().map(record).collect())
        .collect();
    let batches = batches?;
    let compression = match options.compression.as_str() {
        "gzip" => Compression::Gzip,
        "snappy" => Compression::Snappy,
        "lz4" => Compression::Lz4,
        "zstd" => Compression::Zstd,
        _ => Compression::NoCompression,
    };
    let client = ClientBuilder::new(vec![task.bootstrap.clone()])
        .client_id(task.topic.as_str())
        .build()
        .await?;
    let partition = client
        .partition_client(&task.topic, task.partition, UnknownTopicHandling::Error)
        .await?;
    for batch in batches {
        partition.produce(batch, compression).await?;
    }
    Ok(())
}

fn record(row: &Row) -> Result<Record, CannotExpress> {
    if row.headers.iter().any(|header| header.value.is_none()) {
        return Err(CannotExpress("a header without a value"));
    }
    if !row.headers.windows(2).all(|two| two[0].key < two[1].key) {
        return Err(CannotExpress(
            "headers in another order than that of their keys, or a key twice",
        ));
    }
    let headers = row.headers.iter();
    Ok(Record {
        key: row.key.clone(),
        value: row.value.clone(),
        headers: headers
            .map(|header| (header.key.clone(), header.value.clone().unwrap_or_default()))
            .collect(),
        timestamp: DateTime::from_timestamp_millis(row.timestamp)
            .ok_or(CannotExpress("a timestamp that DateTime does not reach"))?,
    })
}
