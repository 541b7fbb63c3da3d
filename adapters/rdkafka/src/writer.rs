//! rdkafka as an application uses it to write: a FutureProducer, send_result and flush.

use crate::driving::{CannotBeTold, Done, Produce, Row, Told};
use futures_executor::block_on;
use rdkafka::config::ClientConfig;
use rdkafka::error::KafkaError;
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{DeliveryFuture, FutureProducer, FutureRecord, Producer};
use std::time::Duration;

const LONG: Duration = Duration::from_secs(20);
const MUCH: &str = "4194304"; // bytes of a batch or request at most

/// Writes batches, each by a flush of its own. An error that a delivery reports ends that.
pub fn produce(told: &Told, asked: &Produce) -> Done {
    if asked.batches.iter().flatten().any(|row| row.timestamp == 0) {
        return Err(CannotBeTold("the timestamp 0, which stands for now").into());
    }
    let mut settings = ClientConfig::new();
    settings
        .set("bootstrap.servers", &told.bootstrap)
        .set("client.id", &told.topic)
        .set("acks", "all")
        .set("compression.type", &asked.compression)
        .set("linger.ms", "200")
        .set("batch.size", MUCH)
        .set("message.max.bytes", MUCH)
        .set("enable.idempotence", asked.idempotent.to_string());
    if asked.transactional {
        settings.set("transactional.id", &told.topic);
    }
    let producer: FutureProducer = settings.create()?;
    if asked.transactional {
        producer.init_transactions(LONG)?;
        producer.begin_transaction()?;
    }
    for batch in &asked.batches {
        let sent: Result<Vec<_>, _> = batch.iter().map(|row| send(&producer, told, row)).collect();
        producer.flush(LONG)?;
        for delivery in sent? {
            block_on(delivery)?.map_err(|(error, _)| error)?;
        }
    }
    if asked.transactional {
        producer.commit_transaction(LONG)?;
    }
    Ok(())
}

fn send(producer: &FutureProducer, told: &Told, row: &Row) -> Result<DeliveryFuture, KafkaError> {
    let headers = row.headers.iter().fold(OwnedHeaders::new(), |all, header| {
        all.insert(Header {
            key: &header.key,
            value: header.value.as_ref(),
        })
    });
    let record = FutureRecord {
        topic: &told.topic,
        partition: Some(told.partition),
        payload: row.value.as_ref(),
        key: row.key.as_ref(),
        timestamp: Some(row.timestamp),
        headers: Some(headers),
    };
    producer.send_result(record).map_err(|(error, _)| error)
}
