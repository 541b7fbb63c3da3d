// The Consumer of @platformatic/kafka as an application uses it: consume, then the messages of the stream.

import { Consumer, FetchIsolationLevels, MessagesStreamFallbackModes, MessagesStreamModes } from "@platformatic/kafka";
import { drive, hexed } from "./driving.mjs";
import { produce } from "./writer.mjs";

/** Passes on the messages of a topic until its last one, and closes the consumer. */
async function consume({ topic, isolation, bootstrap, group }, report) {
  const isolationLevel = FetchIsolationLevels[isolation.toUpperCase()];
  const consumer = new Consumer({
    clientId: "driver",
    groupId: topic,
    bootstrapBrokers: [bootstrap],
    maxWaitTime: 100,
    retryDelay: 10,
    ...(group ? { heartbeatInterval: 100 } : {}),
  });
  const committed = { mode: MessagesStreamModes.COMMITTED, fallbackMode: MessagesStreamFallbackModes.EARLIEST };
  try {
    const stream = await consumer.consume({ topics: [topic], ...committed, autocommit: !group, isolationLevel });
    for await (const message of stream) {
      if (report(shown(message))) break;
      if (group) await message.commit();
    }
  } finally {
    consumer.close(true).catch(() => {});
  }
}

/** Returns a message in the notation of `read`. */
function shown({ offset, timestamp, key, value, headers }) {
  const rows = [...headers].map(([name, one]) => ({ key: name.toString(), value: hexed(one) }));
  const numbers = { offset: String(offset), timestamp: String(timestamp) };
  return { ...numbers, key: hexed(key), value: hexed(value), headers: rows };
}

/** Returns the last of several errors, one for each attempt. */
const cause = (error) => error.errors?.at(-1) ?? error;

drive("@platformatic/kafka", { consume, produce, cause });
