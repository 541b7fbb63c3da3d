// A starter adapter for kafka-conformance. It answers each line of JSON on standard input with one on standard output.
//
//   conformance doctor 'command:node adapter.mjs'    checks the adapter
//   conformance run 'command:node adapter.mjs'       judges the code behind it
//
// Replace the sample code in the rows of the table `types` by calls of YOUR LIBRARY, and add a row per further type.
// Types without a row are skipped and counted as skipped. docs/adapters.md has the types and their notation.

import { createInterface } from "node:readline";

// --- YOUR LIBRARY: replace this sample code --------------------------------------------------------------

// `decode` reads a value at the start of a Buffer, and returns it with the number of consumed bytes; omit `consumed` if
// your library does not report it. `encode` returns a Buffer. Omit a function that your library lacks.
const types = {
  INT32: { decode: decodeInt32, encode: encodeInt32 },
  VARINT: { decode: decodeVarint, encode: encodeVarint },
  STRING: { decode: decodeString, encode: encodeString },
};

// `via` names the judged call of your library: `public: ` for a call of applications, `internal: ` for one on the
// library's own path to the wire.
const about = {
  name: "my-library",
  version: "0.1",
  language: "javascript",
  via: { decode: "public: adapter.decode", encode: "public: adapter.encode" },
};

function decodeInt32(data) {
  if (data.length < 4) throw new Refusal("malformed", "the bytes end inside the number");
  return { value: data.readInt32BE(), consumed: 4 };
}

function encodeInt32(value) {
  const data = Buffer.alloc(4);
  data.writeInt32BE(int32(value));
  return data;
}

function decodeVarint(data) {
  let bits = 0;
  for (let at = 0; at < 5; at++) {
    if (at === data.length) throw new Refusal("malformed", "the bytes end inside the varint");
    bits |= (data[at] & 0x7f) << (7 * at);
    if (data[at] < 0x80) return { value: (bits >>> 1) ^ -(bits & 1), consumed: at + 1 };
  }
  throw new Refusal("malformed", "the varint is longer than 5 bytes");
}

function encodeVarint(value) {
  const bytes = [];
  let bits = ((int32(value) << 1) ^ (value >> 31)) >>> 0;
  for (; bits > 0x7f; bits >>>= 7) bytes.push((bits & 0x7f) | 0x80);
  return Buffer.from([...bytes, bits]);
}

function decodeString(data) {
  if (data.length < 2) throw new Refusal("malformed", "the bytes end inside the length");
  const length = data.readInt16BE();
  if (length < 0 || length > data.length - 2)
    throw new Refusal("malformed", `length ${length}, ${data.length - 2} bytes are left`);
  return { value: data.toString("utf8", 2, 2 + length), consumed: 2 + length };
}

function encodeString(value) {
  if (typeof value !== "string") throw new Refusal("invalid-value", "not a string");
  const text = Buffer.from(value, "utf8");
  if (text.length > 32767) throw new Refusal("invalid-value", "a string has at most 32767 bytes");
  const length = Buffer.alloc(2);
  length.writeInt16BE(text.length);
  return Buffer.concat([length, text]);
}

function int32(value) {
  if (!Number.isInteger(value) || value !== (value | 0)) throw new Refusal("invalid-value", "not a 32-bit number");
  return value;
}

// --- the adapter -----------------------------------------------------------------------------------------

// An error with its class: malformed, corrupt, unsupported-codec, invalid-value or other.
class Refusal extends Error {
  constructor(error, message) {
    super(message);
    this.error = error;
  }
}

// The rejections of your library: errors that it documents, or that an application should catch.
// Every other exception is a crash.
function errorResponse(error) {
  if (error instanceof Refusal) return { ok: false, error: error.error, message: error.message };
  return { crash: String(error) };
}

function supports(op) {
  return Object.keys(types).filter((name) => types[name][op]);
}

function answer({ op, type, hex, value }) {
  if (op === "describe")
    return { ok: true, protocol: 1, ...about, supports: { decode: supports("decode"), encode: supports("encode") } };
  const codec = Object.hasOwn(types, type) ? types[type] : {};
  if (op === "decode" && codec.decode) return { ok: true, ...codec.decode(Buffer.from(hex, "hex")) };
  if (op === "encode" && codec.encode) return { ok: true, hex: codec.encode(value).toString("hex") };
  return { unsupported: `no ${op} of ${type}` };
}

for await (const line of createInterface({ input: process.stdin })) {
  const request = JSON.parse(line);
  let response;
  try {
    response = answer(request);
  } catch (error) {
    response = errorResponse(error);
  }
  process.stdout.write(JSON.stringify({ id: request.id, ...response }) + "\n");
}
