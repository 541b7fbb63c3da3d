package conformance.adapter;

import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.record.internal.MemoryRecords;

import java.math.BigInteger;
import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.UUID;

/** The protocol's value notation: hex, numbers, objects. Numbers are never wrapped or cut. */
final class Notation {

    private static final char[] DIGITS = "0123456789abcdef".toCharArray();

    private Notation() {}

    static String hex(byte[] bytes) {
        return bytes == null ? null : hex(ByteBuffer.wrap(bytes));
    }

    /** Returns the bytes between position and limit, which do not change. */
    static String hex(ByteBuffer bytes) {
        if (bytes == null)
            return null;
        int start = bytes.position();
        char[] text = new char[bytes.remaining() * 2];
        for (int i = 0; i < text.length; i += 2) {
            byte b = bytes.get(start + i / 2);
            text[i] = DIGITS[b >> 4 & 15];
            text[i + 1] = DIGITS[b & 15];
        }
        return new String(text);
    }

    /** Accepts upper and lower case and blanks; null stays null. */
    static ByteBuffer bytes(Object hex) {
        if (hex == null)
            return null;
        if (!(hex instanceof String text))
            throw Unsupported.badRequest("hex expected");
        byte[] bytes = new byte[text.length() / 2];
        int digits = 0;
        for (int i = 0; i < text.length(); i++) {
            char c = text.charAt(i);
            if (Character.isWhitespace(c))
                continue;
            int digit = c < 128 ? Character.digit(c, 16) : -1;
            if (digit < 0)
                throw Unsupported.badRequest("not a hex digit at position " + i);
            if (digits / 2 < bytes.length)
                bytes[digits / 2] |= (byte) (digits % 2 == 0 ? digit << 4 : digit);
            digits++;
        }
        if (digits % 2 != 0)
            throw Unsupported.badRequest("odd number of hex digits");
        return ByteBuffer.wrap(digits / 2 == bytes.length ? bytes : Arrays.copyOf(bytes, digits / 2));
    }

    static byte[] array(Object hex) {
        ByteBuffer bytes = bytes(hex);
        return bytes == null ? null : bytes.array();
    }

    /** Returns a JSON number or decimal string as an integer, or null for another value. */
    static BigInteger integer(Object value) {
        if (value instanceof Integer || value instanceof Long)
            return BigInteger.valueOf(((Number) value).longValue());
        if (value instanceof BigInteger big)
            return big;
        if (value instanceof String text && text.matches("-?[0-9]{1,40}"))
            return new BigInteger(text);
        return null;
    }

    static long int64(Map<?, ?> object, String field) {
        return ranged(object, field, Long.MIN_VALUE, Long.MAX_VALUE, "long");
    }

    static int int32(Map<?, ?> object, String field) {
        return (int) ranged(object, field, Integer.MIN_VALUE, Integer.MAX_VALUE, "int");
    }

    static short int16(Map<?, ?> object, String field) {
        return (short) ranged(object, field, Short.MIN_VALUE, Short.MAX_VALUE, "short");
    }

    private static long ranged(Map<?, ?> object, String field, long lowest, long highest, String javaType) {
        return asInteger(get(object, field), field, lowest, highest, javaType);
    }

    /** Returns a JSON number or decimal string in the range of the API's Java type. */
    static long asInteger(Object value, String what, long lowest, long highest, String javaType) {
        BigInteger number = integer(value);
        if (number == null)
            throw Unsupported.badRequest(what + " is not an integer");
        if (number.bitLength() > 63 || number.longValue() < lowest || number.longValue() > highest)
            throw new Unsupported(what + ": the API takes a Java " + javaType);
        return number.longValue();
    }

    /** Returns the 16 hex digits of its bits. */
    static Double float64(Object value) {
        ByteBuffer bits = bytes(value);
        if (bits == null || bits.remaining() != 8)
            throw Unsupported.badRequest("FLOAT64 has 16 hex digits");
        return Double.longBitsToDouble(bits.getLong());
    }

    static Uuid uuid(Object value) {
        String text = String.valueOf(value);
        if (!text.matches("\\p{XDigit}{8}(-\\p{XDigit}{4}){3}-\\p{XDigit}{12}"))
            throw Unsupported.badRequest("not a UUID");
        UUID uuid = UUID.fromString(text);
        return new Uuid(uuid.getMostSignificantBits(), uuid.getLeastSignificantBits());
    }

    /** Returns a scalar of Kafka in notation; a Java long is a 64-bit field. */
    static Object show(Object value) {
        if (value instanceof Long)
            return value.toString();
        if (value instanceof Double number)
            return String.format("%016x", Double.doubleToRawLongBits(number));
        if (value instanceof Uuid uuid)
            return new UUID(uuid.getMostSignificantBits(), uuid.getLeastSignificantBits()).toString();
        if (value instanceof ByteBuffer bytes)
            return hex(bytes);
        if (value instanceof byte[] bytes)
            return hex(bytes);
        if (value instanceof MemoryRecords records)
            return hex(records.buffer());
        return value;
    }

    static boolean bool(Map<?, ?> object, String field) {
        return asBool(get(object, field), field);
    }

    static boolean asBool(Object value, String what) {
        if (value instanceof Boolean flag)
            return flag;
        throw Unsupported.badRequest(what + " is not true or false");
    }

    /** Returns a string or null. */
    static String text(Map<?, ?> object, String field) {
        return asText(get(object, field), field);
    }

    static String asText(Object value, String what) {
        if (value == null || value instanceof String)
            return (String) value;
        throw Unsupported.badRequest(what + " is not a string");
    }

    static Object get(Map<?, ?> object, String field) {
        Object value = object.get(field);
        if (value == null && !object.containsKey(field))
            throw Unsupported.badRequest(field + " is missing");
        return value;
    }

    static Map<?, ?> object(Object value) {
        if (value instanceof Map<?, ?> object)
            return object;
        throw Unsupported.badRequest("an object is expected");
    }

    static List<?> list(Object value) {
        if (value instanceof List<?> list)
            return list;
        throw Unsupported.badRequest("a list is expected");
    }
}
