// The producer of kafkajs as an application uses it: connect, send, in a transaction or not.

import kafkajs from "kafkajs";
import { CannotExpress, inTurn, octets } from "./driving.mjs";

const { CompressionTypes, Kafka, Partitioners, logLevel } = kafkajs;
const CODECS = { gzip: CompressionTypes.GZIP, snappy: CompressionTypes.Snappy, lz4: CompressionTypes.LZ4 };

/** Writes batches, each with a separate send, one after the other or all together. */
export async function produce({ topic, partition, bootstrap, produce: options }) {
  const batches = options.batches.map((rows) => rows.map((row) => message(row, partition)));
  const { idempotent, transactional } = options;
  const compression = CODECS[options.compression];
  const retry = { initialRetryTime: 10 };
  const kafka = new Kafka({ clientId: topic, brokers: [bootstrap], logLevel: logLevel.NOTHING, retry });
  const settings = { idempotent, maxInFlightRequests: 1, createPartitioner: Partitioners.DefaultPartitioner };
  const producer = kafka.producer({ ...settings, ...(transactional && { transactionalId: topic }) });
  await producer.connect();
  try {
    const send = (messages, writer = producer) => writer.send({ topic, messages, compression });
    await inTurn(options, batches, () => producer.transaction(), send);
  } finally {
    await producer.disconnect();
  }
}

function message({ timestamp, key, value, headers }, partition) {
  const named = {};
  for (const row of headers) {
    if (row.value === null) throw new CannotExpress("a header without a value");
    named[row.key] = [...(named[row.key] ?? []), octets(row.value)];
  }
  const order = Object.entries(named).flatMap(([name, values]) => values.map(() => name));
  if (order.some((name, at) => name !== headers[at].key)) throw new CannotExpress("headers in such an order");
  return { partition, timestamp, key: octets(key), value: octets(value), headers: named };
}
