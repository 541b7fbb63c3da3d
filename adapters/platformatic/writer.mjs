// The Producer of @platformatic/kafka as an application uses it: send, in a transaction or not.

import { ProduceAcks, Producer } from "@platformatic/kafka";
import { inTurn, octets } from "./driving.mjs";

/** Writes batches, each with a separate send, one after the other or all together. */
export async function produce({ topic, partition, bootstrap, produce: options }) {
  const { compression, idempotent, transactional } = options;
  const producer = new Producer({
    clientId: topic,
    bootstrapBrokers: [bootstrap],
    retryDelay: 10,
    acks: ProduceAcks.ALL,
    compression,
    idempotent,
    ...(transactional && { transactionalId: topic }),
  });
  try {
    const send = (rows, writer = producer) =>
      writer.send({ messages: rows.map((row) => message(row, topic, partition)), acks: ProduceAcks.ALL });
    await inTurn(options, options.batches, () => producer.beginTransaction(), send);
  } finally {
    await producer.close(true);
  }
}

function message({ timestamp, key, value, headers }, topic, partition) {
  const rows = new Map(headers.map((row) => [Buffer.from(row.key), octets(row.value)]));
  return { topic, partition, timestamp: BigInt(timestamp), key: octets(key), value: octets(value), headers: rows };
}
