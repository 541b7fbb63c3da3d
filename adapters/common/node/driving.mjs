// What the drivers in JavaScript share: topics come in on standard input, what an application is handed goes out.

import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";

const say = (told) => process.stdout.write(JSON.stringify(told) + "\n");

/** Bytes as hex digits, what a client hands out in their place by its text; null where there is nothing. */
export const hexed = (data) =>
  data == null ? null : (Buffer.isBuffer(data) ? data : Buffer.from(String(data))).toString("hex");

/** Hex digits as bytes; null stays null. */
export const octets = (digits) => (digits === null ? null : Buffer.from(digits, "hex"));

const END = hexed(Buffer.from("conformance.end")); // the key of the record that ends a topic

/**
 * Sends batches, each when the one before is acknowledged, or `together`; in transactions, which `begin` gives, and which
 * end behind a batch by `commit` or `abort`; what fails of some is given up. `send` gets a batch and its transaction.
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

/** A record that the client's interface has no way to name; the message says what of it. */
export class CannotBeTold extends Error {}

/**
 * Consumes each topic that the suite names, or writes to it, all at once, until the suite ends the input. `consume` gets
 * `hand`, which takes a record and returns whether it was the last one; `cause` finds what to tell of an error.
 */
export function drive(name, { consume, produce, cause = (error) => error }) {
  say({ version: installed(name) });
  createInterface({ input: process.stdin })
    .on("line", (line) => answer(JSON.parse(line)))
    .on("close", () => process.exit());

  async function answer(told) {
    const { topic } = told;
    const hand = (record) => {
      say({ topic, record });
      return record.key === END;
    };
    try {
      await ("produce" in told ? produce(told) : consume(told, hand));
      say({ topic, end: true });
    } catch (error) {
      if (error instanceof CannotBeTold) return say({ topic, unsupported: error.message });
      const { name, message } = cause(error);
      say({ topic, error: "other", message: `${name}: ${message}` });
    }
  }
}

/** The version of a package beside this program. */
function installed(name) {
  return JSON.parse(readFileSync(new URL(`node_modules/${name}/package.json`, import.meta.url))).version;
}
