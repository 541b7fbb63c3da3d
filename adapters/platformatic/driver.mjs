// The Consumer of @platformatic/kafka as an application uses it: consume, then the messages of the stream.

import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { Consumer, FetchIsolationLevels, MessagesStreamModes } from "@platformatic/kafka";
import { produce } from "./writer.mjs";

const END = "conformance.end";
const PACKAGE = new URL("node_modules/@platformatic/kafka/package.json", import.meta.url);
const say = (told) => process.stdout.write(JSON.stringify(told) + "\n");
const hexed = (data) => (data == null ? null : data.toString("hex"));

/** Says what comes of a topic. */
async function answer(told) {
  const { topic } = told;
  try {
    await ("produce" in told ? produce(told) : consume(told));
    say({ topic, end: true });
  } catch (error) {
    const last = error.errors?.at(-1) ?? error; // one for each attempt
    say({ topic, error: "other", message: `${last.name}: ${last.message}` });
  }
}

/** Says the messages of a topic until its last one; the consumer is closed by then. */
async function consume({ topic, isolation, bootstrap }) {
  const isolationLevel = FetchIsolationLevels[isolation.toUpperCase()];
  const consumer = new Consumer({
    clientId: "driver",
    groupId: topic,
    bootstrapBrokers: [bootstrap],
    maxWaitTime: 100,
    retryDelay: 10,
  });
  try {
    const stream = await consumer.consume({ topics: [topic], mode: MessagesStreamModes.COMMITTED, isolationLevel });
    for await (const message of stream) {
      say({ topic, record: shown(message) });
      if (message.key?.toString() === END) break;
    }
  } finally {
    consumer.close(true).catch(() => {});
  }
}

/** A message in the notation of `read`. */
function shown({ offset, timestamp, key, value, headers }) {
  const rows = [...headers].map(([name, one]) => ({ key: name.toString(), value: hexed(one) }));
  const numbers = { offset: String(offset), timestamp: String(timestamp) };
  return { ...numbers, key: hexed(key), value: hexed(value), headers: rows };
}

say({ version: JSON.parse(readFileSync(PACKAGE)).version });
createInterface({ input: process.stdin })
  .on("line", (line) => answer(JSON.parse(line)))
  .on("close", () => process.exit());
