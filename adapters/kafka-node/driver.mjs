// The consumer group of kafka-node as an application uses it: its events `message` and `error`.

import kafkaNode from "kafka-node";
import { drive, hexed } from "./driving.mjs";

const SETTINGS = { autoCommit: false, fromOffset: "earliest", encoding: "buffer", keyEncoding: "buffer" };

/** Passes on the messages of a topic until its last one. */
async function consume({ topic, bootstrap, group: commits }, report) {
  const extra = commits ? { heartbeatInterval: 100, autoCommit: true, autoCommitIntervalMs: 1 } : {};
  const group = new kafkaNode.ConsumerGroup({ kafkaHost: bootstrap, groupId: topic, ...SETTINGS, ...extra }, topic);
  try {
    await new Promise((resolve, reject) => {
      group.on("message", (message) => report(shown(message)) && resolve());
      group.on("error", reject);
      group.on("offsetOutOfRange", reject);
    });
  } finally {
    group.close(false, () => {});
  }
}

/** Returns a message in the notation of `read`, without a timestamp of 0 or outside the range of Date. */
function shown({ offset, timestamp, key, value }) {
  const time = Number.isFinite(timestamp?.getTime()) ? { timestamp: String(timestamp.getTime()) } : {};
  return { offset: String(offset), ...time, key: hexed(key), value: hexed(value), headers: [] };
}

drive("kafka-node", { consume });
