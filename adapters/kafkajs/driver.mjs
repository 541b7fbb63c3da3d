// The consumer of kafkajs as an application uses it: subscribe, run, eachMessage; its CRASH event ends it.

import kafkajs from "kafkajs";
import LZ4Codec from "kafkajs-lz4";
import SnappyCodec from "kafkajs-snappy";
import { drive, hexed } from "./driving.mjs";
import { produce } from "./writer.mjs";

const { CompressionCodecs, CompressionTypes, Kafka, logLevel } = kafkajs;
CompressionCodecs[CompressionTypes.Snappy] = SnappyCodec;
CompressionCodecs[CompressionTypes.LZ4] = new LZ4Codec().codec;

/** Passes on the messages of a topic until its last one, and stops the consumer. */
async function consume({ topic, isolation, bootstrap, group }, report) {
  const kafka = new Kafka({ brokers: [bootstrap], logLevel: logLevel.NOTHING, retry: { initialRetryTime: 10 } });
  const readUncommitted = isolation === "read_uncommitted";
  const extra = group ? { heartbeatInterval: 100 } : {};
  const consumer = kafka.consumer({ groupId: topic, readUncommitted, maxWaitTimeInMs: 100, rackId: "rack", ...extra });
  try {
    await new Promise((resolve, reject) => {
      consumer.on(consumer.events.CRASH, ({ payload }) => payload.restart || reject(payload.error));
      const eachMessage = async ({ message }) => {
        if (report(shown(message))) resolve();
      };
      start(consumer, topic, { eachMessage, ...(group ? { autoCommitThreshold: 1 } : {}) }).catch(reject);
    });
  } finally {
    consumer.disconnect().catch(() => {});
  }
}

async function start(consumer, topic, settings) {
  await consumer.connect();
  await consumer.subscribe({ topics: [topic], fromBeginning: true });
  await consumer.run(settings);
}

/** Returns a message in the notation of `read`; old formats have no timestamp or headers. */
function shown({ offset, timestamp, key, value, headers = {} }) {
  const rows = Object.entries(headers).flatMap(([name, values]) =>
    [values].flat().map((one) => ({ key: name, value: hexed(one) })),
  );
  return { offset, timestamp: timestamp ?? "-1", key: hexed(key), value: hexed(value), headers: rows };
}

drive("kafkajs", { consume, produce });
