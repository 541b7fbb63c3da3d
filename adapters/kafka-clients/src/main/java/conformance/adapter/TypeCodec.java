package conformance.adapter;

import org.apache.kafka.common.message.BrokerRegistrationRequestData;
import org.apache.kafka.common.protocol.types.Field;
import org.apache.kafka.common.protocol.types.Schema;
import org.apache.kafka.common.protocol.types.Struct;
import org.apache.kafka.common.protocol.types.Type;
import org.apache.kafka.common.record.internal.MemoryRecords;

import java.math.BigInteger;
import java.nio.ByteBuffer;
import java.util.Map;
import java.util.ArrayList;
import java.util.List;

/**
 * A type of Kafka's generic protocol. It is read by itself; to write, it is put into a structure of one field,
 * which is how Kafka comes to check a value before it writes it.
 */
final class TypeCodec implements Codec {

    private final Type type;
    private final Schema schema;

    TypeCodec(Type type) {
        this.type = type;
        this.schema = new Schema(new Field("value", type));
    }

    @Override
    public Decoded decode(ByteBuffer bytes) {
        Object value = Library.call(() -> type.read(bytes));
        return new Decoded(show(type, value), bytes.position());
    }

    @Override
    public ByteBuffer encode(Object value, Map<?, ?> request) {
        Object javaValue = javaValue(type, value);
        return Library.call(() -> {
            Struct struct = new Struct(schema).set("value", javaValue);
            ByteBuffer buffer = ByteBuffer.allocate(struct.sizeOf());
            struct.writeTo(buffer);
            return buffer.flip();
        });
    }

    @Override
    public int size(Object value, Map<?, ?> request) {
        Object javaValue = javaValue(type, value);
        return Library.call(() -> new Struct(schema).set("value", javaValue).sizeOf());
    }

    /**
     * The Java object that Kafka wants for a value. A number that does not fit the wanted class keeps its wider one,
     * and whatever else does not fit goes on as it is: Kafka's validate() has the word on it.
     */
    private static Object javaValue(Type type, Object value) {
        if (type.isArray())
            return value instanceof List<?> list ? javaArray(type.arrayElementType().orElseThrow(), list) : value;
        if (value == null || value instanceof Boolean)
            return value;
        if (type == Type.INT8)
            return integer(value, 8);
        if (type == Type.INT16)
            return integer(value, 16);
        if (type == Type.UINT16)
            return unsignedShort(integer(value, 32));
        if (type == Type.UNSIGNED_INT32)
            return unsignedInt(integer(value, 64));
        if (type == Type.INT32 || type == Type.VARINT)
            return integer(value, 32);
        if (type == Type.INT64 || type == Type.VARLONG)
            return integer(value, 64);
        if (type == Type.FLOAT64)
            return Notation.float64(value);
        if (type == Type.UUID)
            return Notation.uuid(value);
        if (isBytes(type))
            return Notation.bytes(value);
        if (type == Type.RECORDS || type == Type.COMPACT_RECORDS) {
            ByteBuffer bytes = Notation.bytes(value);
            return Library.call(() -> MemoryRecords.readableRecords(bytes));
        }
        return value;
    }

    private static Object[] javaArray(Type elementType, List<?> list) {
        Object[] array = new Object[list.size()];
        for (int i = 0; i < array.length; i++)
            array[i] = javaValue(elementType, list.get(i));
        return array;
    }

    /** The generic type wraps what does not fit; the setters of generated messages, which Kafka uses, refuse it. */
    private static Object unsignedShort(Object value) {
        if (value instanceof Integer number)
            Library.call(() -> new BrokerRegistrationRequestData.Listener().setPort(number));
        return value;
    }

    /** The generic type wraps here as well, and no message of Kafka's has a uint32 whose setter would have the word. */
    private static Object unsignedInt(Object value) {
        if (value instanceof Long number && (number < 0 || number > 0xffffffffL))
            throw new Unsupported("no API of Kafka checks a uint32");
        return value;
    }

    private static Object integer(Object value, int bits) {
        // only 64-bit values may be written as strings
        BigInteger number = value instanceof String && bits < 64 ? null : Notation.integer(value);
        if (number == null)
            return value;
        int needed = number.bitLength() + 1;
        if (needed > bits)
            return needed > 64 ? number : (Object) number.longValue();
        return switch (bits) {
            case 8 -> (Object) number.byteValue();
            case 16 -> number.shortValue();
            case 32 -> number.intValue();
            default -> number.longValue();
        };
    }

    private static boolean isBytes(Type type) {
        return type == Type.BYTES || type == Type.COMPACT_BYTES
            || type == Type.NULLABLE_BYTES || type == Type.COMPACT_NULLABLE_BYTES;
    }

    /** What Kafka read, in the protocol's notation. */
    private static Object show(Type type, Object value) {
        if (value instanceof Object[] array) {
            Type elementType = type.arrayElementType().orElseThrow();
            List<Object> list = new ArrayList<>(array.length);
            for (Object element : array)
                list.add(show(elementType, element));
            return list;
        }
        return type == Type.UNSIGNED_INT32 ? value : Notation.show(value);
    }
}
