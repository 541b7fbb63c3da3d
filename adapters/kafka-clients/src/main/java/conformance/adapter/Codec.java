package conformance.adapter;

import java.nio.ByteBuffer;

/** One type of the wire format, as Kafka's classes read and write it. */
interface Codec {

    /** A value in the protocol's notation, and how many bytes it took (null where Kafka does not tell). */
    record Decoded(Object value, Integer consumed) {}

    Decoded decode(ByteBuffer bytes);

    ByteBuffer encode(Object value);

    int size(Object value);
}
