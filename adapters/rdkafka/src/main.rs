//! rdkafka as an application uses it: a polled BaseConsumer per topic, assigned at an offset or subscribed.

mod driving;
mod records;
mod writer;

use driving::{drive, pinned, Done, Report, Task};
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::error::KafkaError::MessageConsumption;
use rdkafka::error::RDKafkaErrorCode::{AllBrokersDown, BrokerTransportFailure};
use rdkafka::message::Message;
use rdkafka::util::get_rdkafka_version;
use rdkafka::{Offset, TopicPartitionList};
use records::shown;
use std::time::Duration;

/// Passes on the messages of poll until the last one or its first error.
fn consume(task: &Task, report: &mut Report) -> Done {
    let consumer: BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", &task.bootstrap)
        .set("group.id", &task.topic) // required even without joining the group
        .set("enable.auto.commit", "false")
        .set("isolation.level", &task.isolation)
        .set("check.crcs", "true") // off by default
        .set("fetch.error.backoff.ms", "10")
        .set("client.rack", "rack")
        .set("heartbeat.interval.ms", "100")
        .set("auto.offset.reset", if task.group { "earliest" } else { "latest" })
        .create()?;
    if task.group {
        consumer.subscribe(&[&task.topic])?;
    } else {
        let mut begin = TopicPartitionList::new();
        begin.add_partition_offset(&task.topic, task.partition, Offset::Offset(task.offset))?;
        consumer.assign(&begin)?;
    }
    loop {
        if let Some(message) = consumer.poll(Duration::from_millis(200)) {
            if let Err(MessageConsumption(BrokerTransportFailure | AllBrokersDown)) = message {
                continue; // it reconnects by itself
            }
            let message = message?;
            if report(message.key(), shown(&message)) {
                return Ok(());
            }
            if task.group {
                consumer.commit_message(&message, CommitMode::Sync)?;
            }
        }
    }
}

fn main() {
    let version = pinned(include_str!("../Cargo.toml"), "rdkafka");
    let librdkafka = get_rdkafka_version().1;
    let version = format!("{version} (librdkafka {librdkafka})");
    drive(&version, consume, writer::produce);
}
