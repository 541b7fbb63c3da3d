// The producer of kafkajs as an application uses it: connect, send, in a transaction or not.

import kafkajs from "kafkajs";
import { CannotBeTold, inTurn, octets } from "./driving.mjs";

const { CompressionTypes, Kafka, Partitioners, logLevel } = kafkajs;
const CODECS = { gzip: CompressionTypes.GZIP, snappy: CompressionTypes.Snappy, lz4: CompressionTypes.LZ4 };

/** Writes batches, each with a separate send, one after the other or all together. */
export async function produce({ topic, partition, bootstrap, produce: asked }) {
  const batches = asked.batches.map((rows) => rows.map((row) => message(row, partition)));
  const { idempotent, transactional } = asked;
  const compression = CODECS[asked.compression];
  const retry = { initialRetryTime: 10 };
  const kafka = new Kafka({ clientId: topic, brokers: [bootstrap], logLevel: logLevel.NOTHING, retry });
  const settings = { idempotent, maxInFlightRequests: 1, createPartitioner: Partitioners.DefaultPartitioner };
  const producer = kafka.producer({ ...settings, ...(transactional && { transactionalId: topic }) });
  await producer.connect();
  try {
    const send = (messages, writer = producer) => writer.send({ topic, messages, compression });
    await inTurn(asked, batches, () => producer.transaction(), send);
  } finally {
    await producer.disconnect();
  }
}

function message({ timestamp, key, value, headers }, partition) {
  const named = {};
  for (const row of headers) {
    if (row.value === null) throw new CannotBeTold("a header without a value");
    named[row.key] = [...(named[row.key] ?? []), octets(row.value)];
  }
  const told = Object.entries(named).flatMap(([name, values]) => values.map(() => name));
  if (told.some((name, at) => name !== headers[at].key)) throw new CannotBeTold("headers in such an order");
  return { partition, timestamp, key: octets(key), value: octets(value), headers: named };
}
