//! rdkafka as an application uses it to write: a FutureProducer, send_result and flush.

use crate::driving::{Done, ProduceOptions, Task};
use crate::records::client_record;
use futures_executor::block_on;
use rdkafka::config::ClientConfig;
use rdkafka::producer::{FutureProducer, Producer};
use std::time::Duration;

const TIMEOUT: Duration = Duration::from_secs(20);

/// Writes batches with a flush after each or after all, until the first delivery error.
pub fn produce(task: &Task, options: &ProduceOptions) -> Done {
    let now = "the timestamp 0, which stands for now";
    options.cannot(|row| row.timestamp == 0, now)?;
    let mut settings = ClientConfig::new();
    settings
        .set("bootstrap.servers", &task.bootstrap)
        .set("client.id", &task.topic)
        .set("acks", "all")
        .set("compression.type", &options.compression)
        .set("linger.ms", "200")
        .set("batch.size", options.batch_bytes.to_string())
        .set("message.max.bytes", options.batch_bytes.to_string())
        .set("enable.idempotence", options.idempotent.to_string());
    if options.transactional {
        settings.set("transactional.id", &task.topic);
    }
    let producer: FutureProducer = settings.create()?;
    if options.transactional {
        producer.init_transactions(TIMEOUT)?;
    }
    let mut begins = options.transactional;
    for (at, (batch, end)) in options.in_turn().into_iter().zip(&options.ends).enumerate() {
        if begins {
            producer.begin_transaction()?;
        }
        let send = |row| producer.send_result(client_record(task, row));
        let sent: Result<Vec<_>, _> = batch.into_iter().map(send).collect();
        producer.flush(TIMEOUT)?;
        for delivery in sent.map_err(|(error, _)| error)? {
            let delivered = block_on(delivery)?.map_err(|(error, _)| error);
            if !options.given_up[at] {
                delivered?;
            }
        }
        match end.as_str() {
            "commit" => producer.commit_transaction(TIMEOUT)?,
            "abort" => producer.abort_transaction(TIMEOUT)?,
            _ => {}
        }
        begins = !end.is_empty();
    }
    Ok(())
}
