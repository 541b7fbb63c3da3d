// Shared code of the JavaScript drivers: reads topics from standard input, writes the application's records and errors.

import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";

const writeLine = (content) => process.stdout.write(JSON.stringify(content) + "\n");

/** Returns bytes as hex digits; other values by their text; null stays null. */
export const hexed = (data) =>
  data == null ? null : (Buffer.isBuffer(data) ? data : Buffer.from(String(data))).toString("hex");

/** Returns hex digits as bytes; null stays null. */
export const octets = (digits) => (digits === null ? null : Buffer.from(digits, "hex"));

const END = hexed(Buffer.from("conformance.end")); // key of the record that ends a topic

/**
 * Sends batches, each after the acknowledgement of the previous one, or `together`; in transactions from `begin`, which
 * end after a batch by `commit` or `abort`; errors of some are ignored. `send` gets a batch and its transaction.
 */
export async function inTurn({ together, transactional, ends, givenUp }, batches, begin, send) {
  if (together) return Promise.all(batches.map((batch) => send(batch)));
  let transaction;
  for (const [at, batch] of batches.entries()) {
    if (transactional) transaction ??= await begin();
    if (batch.length) await send(batch, transaction).catch((error) => givenUp[at] || Promise.reject(error));
    if (!ends[at]) continue;
    await transaction[ends[at]]();
    transaction = undefined;
  }
}

/** A record that the client's interface cannot express; the message names the part. */
export class CannotExpress extends Error {}

/**
 * Consumes or writes each topic of the suite, all in parallel, until the input ends. `consume` gets `report`, which
 * writes a record and returns true for the last one; `cause` returns the reported part of an error.
 */
export function drive(name, { consume, produce, cause = (error) => error }) {
  writeLine({ version: installed(name) });
  createInterface({ input: process.stdin })
    .on("line", (line) => serve(JSON.parse(line)))
    .on("close", () => process.exit());

  async function serve(task) {
    const { topic } = task;
    const report = (record) => {
      writeLine({ topic, record });
      return record.key === END;
    };
    try {
      await ("produce" in task ? produce(task) : consume(task, report));
      writeLine({ topic, end: true });
    } catch (error) {
      if (error instanceof CannotExpress) return writeLine({ topic, unsupported: error.message });
      const { name, message } = cause(error);
      writeLine({ topic, error: "other", message: `${name}: ${message}` });
    }
  }
}

/** Returns the version of a package next to this program. */
function installed(name) {
  return JSON.parse(readFileSync(new URL(`node_modules/${name}/package.json`, import.meta.url))).version;
}
