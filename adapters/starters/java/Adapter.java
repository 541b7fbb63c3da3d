// A starter adapter for kafka-conformance. It answers each line of JSON on standard input with one on standard output.
//
//   conformance doctor 'command:java Adapter.java'    checks the adapter
//   conformance run 'command:java Adapter.java'       judges the code behind it
//
// Replace the sample code in the rows of the table TYPES by calls of YOUR LIBRARY, and add a row per further type. Name
// your library's jar by `java -cp my-library.jar Adapter.java`; Java 17 or newer compiles the file at each start.
// Types without a row are skipped and counted as skipped. docs/adapters.md has the types and their notation.

import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.BufferUnderflowException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Function;

public class Adapter {

    // --- YOUR LIBRARY: replace this sample code --------------------------------------------------------------

    /**
     * The functions that read and write one type; null is not claimed. `decode` reads a value at the start of a buffer
     * and leaves the buffer's position after it, which shows the number of consumed bytes.
     */
    record Codec(Function<ByteBuffer, Object> decode, Function<Object, byte[]> encode) {}

    static final Map<String, Codec> TYPES = Map.of(
            "INT32", new Codec(ByteBuffer::getInt, Adapter::encodeInt32),
            "VARINT", new Codec(Adapter::decodeVarint, Adapter::encodeVarint),
            "STRING", new Codec(Adapter::decodeString, Adapter::encodeString));

    /** `via` names the judged call: `public: ` for a call of applications, `internal: ` for one of the library. */
    static final Map<String, Object> ABOUT = Map.of(
            "name", "my-library",
            "version", "0.1",
            "language", "java",
            "via", Map.of("decode", "public: Adapter.decode", "encode", "public: Adapter.encode"));

    /** Your library's rejections, with their class. Every other exception is a crash. */
    static Refusal refusal(RuntimeException error) {
        if (error instanceof Refusal refusal) return refusal;
        if (error instanceof BufferUnderflowException) return new Refusal("malformed", "the bytes end too early");
        return null;
    }

    static byte[] encodeInt32(Object value) {
        return ByteBuffer.allocate(4).putInt(int32(value)).array();
    }

    static Object decodeVarint(ByteBuffer data) {
        int bits = 0;
        for (int shift = 0; shift < 35; shift += 7) {
            byte next = data.get();
            bits |= (next & 0x7f) << shift;
            if (next >= 0) return (bits >>> 1) ^ -(bits & 1);
        }
        throw new Refusal("malformed", "the varint is longer than 5 bytes");
    }

    static byte[] encodeVarint(Object value) {
        int number = int32(value);
        int bits = (number << 1) ^ (number >> 31);
        ByteBuffer out = ByteBuffer.allocate(5);
        for (; (bits & ~0x7f) != 0; bits >>>= 7) out.put((byte) (bits | 0x80));
        out.put((byte) bits);
        return Arrays.copyOf(out.array(), out.position());
    }

    static Object decodeString(ByteBuffer data) {
        short length = data.getShort();
        if (length < 0 || length > data.remaining())
            throw new Refusal("malformed", "length " + length + ", " + data.remaining() + " bytes are left");
        byte[] text = new byte[length];
        data.get(text);
        return new String(text, StandardCharsets.UTF_8);
    }

    static byte[] encodeString(Object value) {
        if (!(value instanceof String)) throw new Refusal("invalid-value", "not a string");
        byte[] text = ((String) value).getBytes(StandardCharsets.UTF_8);
        if (text.length > Short.MAX_VALUE) throw new Refusal("invalid-value", "a string has at most 32767 bytes");
        return ByteBuffer.allocate(2 + text.length).putShort((short) text.length).put(text).array();
    }

    static int int32(Object value) {
        if (value instanceof Long number && number == number.intValue()) return number.intValue();
        throw new Refusal("invalid-value", "not a 32-bit number");
    }

    // --- the adapter -------------------------------------------------------------------------------------

    /** An error with its class: malformed, corrupt, unsupported-codec, invalid-value or other. */
    static final class Refusal extends RuntimeException {
        final String error;

        Refusal(String error, String message) {
            super(message);
            this.error = error;
        }
    }

    static Map<String, Object> answer(Map<?, ?> request) {
        Object op = request.get("op");
        if ("describe".equals(op)) return describe();
        Codec codec = TYPES.get(String.valueOf(request.get("type")));
        if ("decode".equals(op) && codec != null && codec.decode() != null) {
            ByteBuffer data = ByteBuffer.wrap(HexFormat.of().parseHex((String) request.get("hex")));
            Object value = codec.decode().apply(data);
            return fields("ok", true, "value", value, "consumed", data.position());
        }
        if ("encode".equals(op) && codec != null && codec.encode() != null) {
            byte[] data = codec.encode().apply(request.get("value"));
            return fields("ok", true, "hex", HexFormat.of().formatHex(data));
        }
        return fields("unsupported", "no " + op + " of " + request.get("type"));
    }

    static Map<String, Object> describe() {
        List<String> decoded = TYPES.keySet().stream().filter(name -> TYPES.get(name).decode() != null).toList();
        List<String> encoded = TYPES.keySet().stream().filter(name -> TYPES.get(name).encode() != null).toList();
        Map<String, Object> response = fields("ok", true, "protocol", 1);
        response.put("supports", fields("decode", decoded, "encode", encoded));
        response.putAll(ABOUT);
        return response;
    }

    /** Reports a rejection, and every other exception as a crash. */
    static Map<String, Object> answerOrCrash(Map<?, ?> request) {
        try {
            return answer(request);
        } catch (RuntimeException error) {
            Refusal refusal = refusal(error);
            if (refusal == null) return fields("crash", error.toString());
            return fields("ok", false, "error", refusal.error, "message", refusal.getMessage());
        } catch (Error error) {
            return fields("crash", error.toString());
        }
    }

    /** Returns alternating names and values as an ordered object. A value may be null. */
    static Map<String, Object> fields(Object... given) {
        Map<String, Object> fields = new LinkedHashMap<>();
        for (int at = 0; at < given.length; at += 2) fields.put((String) given[at], given[at + 1]);
        return fields;
    }

    public static void main(String[] arguments) throws IOException {
        PrintStream out = new PrintStream(new FileOutputStream(FileDescriptor.out), true, StandardCharsets.UTF_8);
        System.setOut(System.err); // output of your library is no answer
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            Map<?, ?> request = (Map<?, ?>) new Json(line).value();
            Map<String, Object> response = answerOrCrash(request);
            response.put("id", request.get("id"));
            out.print(Json.text(response) + "\n");
            out.flush();
        }
    }

    /** The part of JSON that the protocol needs: maps, lists, strings, whole numbers as Long, true, false and null. */
    static final class Json {
        private final String text;
        private int at;

        Json(String text) {
            this.text = text;
        }

        Object value() {
            if (skips('{')) return object();
            if (skips('[')) return list();
            if (skips('"')) return string();
            int start = at;
            while (at < text.length() && (Character.isLetterOrDigit(text.charAt(at)) || text.charAt(at) == '-')) at++;
            String word = text.substring(start, at);
            return switch (word) {
                case "null" -> null;
                case "true" -> true;
                case "false" -> false;
                default -> Long.valueOf(word);
            };
        }

        private Map<String, Object> object() {
            Map<String, Object> fields = new LinkedHashMap<>();
            while (!skips('}')) {
                skips(',');
                skips('"');
                String name = string();
                skips(':');
                fields.put(name, value());
            }
            return fields;
        }

        private List<Object> list() {
            List<Object> values = new ArrayList<>();
            while (!skips(']')) {
                skips(',');
                values.add(value());
            }
            return values;
        }

        /** Returns the rest of a string after its quotation mark. */
        private String string() {
            StringBuilder out = new StringBuilder();
            for (char sign = text.charAt(at++); sign != '"'; sign = text.charAt(at++)) {
                out.append(sign == '\\' ? escaped(text.charAt(at++)) : sign);
            }
            return out.toString();
        }

        private char escaped(char sign) {
            int code = "bfnrt".indexOf(sign);
            if (code >= 0) return "\b\f\n\r\t".charAt(code);
            if (sign != 'u') return sign;
            at += 4;
            return (char) Integer.parseInt(text.substring(at - 4, at), 16);
        }

        /** Skips blanks and this character, and returns true, if it is the next one. */
        private boolean skips(char sign) {
            while (at < text.length() && text.charAt(at) <= ' ') at++;
            boolean there = at < text.length() && text.charAt(at) == sign;
            if (there) at++;
            return there;
        }

        static String text(Object value) {
            if (value instanceof Map<?, ?> fields) {
                List<String> parts = new ArrayList<>();
                fields.forEach((name, entry) -> parts.add(quoted((String) name) + ":" + text(entry)));
                return "{" + String.join(",", parts) + "}";
            }
            if (value instanceof List<?> values) {
                return "[" + String.join(",", values.stream().map(Json::text).toList()) + "]";
            }
            return value instanceof String given ? quoted(given) : String.valueOf(value);
        }

        private static String quoted(String given) {
            StringBuilder out = new StringBuilder("\"");
            for (char sign : given.toCharArray()) {
                if (sign == '"' || sign == '\\') out.append('\\').append(sign);
                else if (sign < ' ') out.append(String.format("\\u%04x", (int) sign));
                else out.append(sign);
            }
            return out.append('"').toString();
        }
    }
}
