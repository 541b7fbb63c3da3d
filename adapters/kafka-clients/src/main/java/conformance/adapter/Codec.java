package conformance.adapter;

import java.nio.ByteBuffer;
import java.util.Map;

/** One type of the wire format, read and written by Kafka's classes. */
interface Codec {

    /** A value in the protocol's notation, and its consumed bytes (null if Kafka does not report them). */
    record Decoded(Object value, Integer consumed) {}

    /** For each operation, Kafka's path to the wire and the judged call on it; null if not claimed. */
    record Doors(String decode, String encode, String size) {}

    /** Thrown for a value that was read completely, but is too long for an answer. */
    Object NOT_SHOWN = new Object();

    Doors doors();

    Decoded decode(ByteBuffer bytes);

    /** Returns the bytes of the value; the request's other fields are further arguments of the type. */
    ByteBuffer encode(Object value, Map<?, ?> request);

    /** Returns the size in bytes from the library's size functions. */
    int size(Object value, Map<?, ?> request);
}
