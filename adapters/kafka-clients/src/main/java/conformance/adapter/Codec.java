package conformance.adapter;

import java.nio.ByteBuffer;
import java.util.Map;

/** One type of the wire format, as Kafka's classes read and write it. */
interface Codec {

    /** A value in the protocol's notation, and how many bytes it took (null where Kafka does not tell). */
    record Decoded(Object value, Integer consumed) {}

    /** For each operation, Kafka's own path to the wire and the call on it that is judged; null: not claimed. */
    record Doors(String decode, String encode, String size) {}

    /** For a value that is read in full, and too long to be answered. */
    Object NOT_SHOWN = new Object();

    Doors doors();

    Decoded decode(ByteBuffer bytes);

    /** The bytes of the value; the request's other fields are what the type takes beside it. */
    ByteBuffer encode(Object value, Map<?, ?> request);

    /** The size in bytes, from the library's own counting. */
    int size(Object value, Map<?, ?> request);
}
