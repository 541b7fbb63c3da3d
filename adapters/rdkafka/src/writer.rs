//! rdkafka as an application uses it to write: a FutureProducer, send_result and flush.

use crate::driving::{Done, Produce, Told};
use crate::records::taken;
use futures_executor::block_on;
use rdkafka::config::ClientConfig;
use rdkafka::producer::{FutureProducer, Producer};
use std::time::Duration;

const LONG: Duration = Duration::from_secs(20);

/// Writes batches with a flush after each or after all, until the first delivery error.
pub fn produce(told: &Told, asked: &Produce) -> Done {
    let now = "the timestamp 0, which stands for now";
    asked.cannot(|row| row.timestamp == 0, now)?;
    let mut settings = ClientConfig::new();
    settings
        .set("bootstrap.servers", &told.bootstrap)
        .set("client.id", &told.topic)
        .set("acks", "all")
        .set("compression.type", &asked.compression)
        .set("linger.ms", "200")
        .set("batch.size", asked.batch_bytes.to_string())
        .set("message.max.bytes", asked.batch_bytes.to_string())
        .set("enable.idempotence", asked.idempotent.to_string());
    if asked.transactional {
        settings.set("transactional.id", &told.topic);
    }
    let producer: FutureProducer = settings.create()?;
    if asked.transactional {
        producer.init_transactions(LONG)?;
    }
    let mut begins = asked.transactional;
    for (at, (batch, end)) in asked.in_turn().into_iter().zip(&asked.ends).enumerate() {
        if begins {
            producer.begin_transaction()?;
        }
        let send = |row| producer.send_result(taken(told, row));
        let sent: Result<Vec<_>, _> = batch.into_iter().map(send).collect();
        producer.flush(LONG)?;
        for delivery in sent.map_err(|(error, _)| error)? {
            let delivered = block_on(delivery)?.map_err(|(error, _)| error);
            if !asked.given_up[at] {
                delivered?;
            }
        }
        match end.as_str() {
            "commit" => producer.commit_transaction(LONG)?,
            "abort" => producer.abort_transaction(LONG)?,
            _ => {}
        }
        begins = !end.is_empty();
    }
    Ok(())
}
