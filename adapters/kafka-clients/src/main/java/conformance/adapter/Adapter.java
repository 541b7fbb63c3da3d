package conformance.adapter;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.json.JsonWriteFeature;
import com.fasterxml.jackson.jr.ob.JSON;
// AppInfoParser is in `utils` up to Kafka 4.3 and in `utils.internals` from 4.4 on: the wildcards find it in either
import org.apache.kafka.common.utils.*;
import org.apache.kafka.common.utils.internals.*;

import java.io.BufferedOutputStream;
import java.io.FileDescriptor;
import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Function;

/** Implements the target protocol: one JSON object per line in, one per line out, in order. */
public final class Adapter {

    private static final int LONGEST_MESSAGE = 500;

    private final Map<String, String> versions = Messages.versions();
    private final Messages messages = new Messages();
    private final Types types = new Types(messages, versions);
    // a string with a lone surrogate must be written escaped
    private final JSON json = JSON.builder(JsonFactory.builder().enable(JsonWriteFeature.ESCAPE_NON_ASCII).build())
        .enable(JSON.Feature.WRITE_NULL_PROPERTIES)
        .build();

    public static void main(String[] args) throws IOException {
        OutputStream out = new BufferedOutputStream(new FileOutputStream(FileDescriptor.out), 1 << 16);
        System.setOut(System.err); // only the protocol uses the original stream
        Adapter adapter = new Adapter();
        // answers are flushed when no input is left, just before the reader would wait
        Lines lines = new Lines(new FileInputStream(FileDescriptor.in), out::flush);
        for (byte[] line = lines.next(); line != null; line = lines.next()) {
            if (line.length == 0)
                continue;
            out.write(adapter.answer(line));
            out.write('\n');
        }
        out.flush();
    }

    /** Returns the answer to one line; never throws. */
    private byte[] answer(byte[] line) throws IOException {
        Map<String, Object> answer = new LinkedHashMap<>();
        Object id = null;
        try {
            Map<String, Object> request = json.mapFrom(line);
            id = request.get("id");
            answer.put("id", id);
            fill(request, answer);
            return json.asBytes(answer);
        } catch (Exception | OutOfMemoryError | StackOverflowError e) {
            // a fault of this program, or an invalid request: not from Kafka
            e.printStackTrace();
            answer.clear();
            answer.put("id", id);
            answer.put("unsupported", "adapter: " + describe(e));
            return json.asBytes(answer);
        }
    }

    private void fill(Map<String, Object> request, Map<String, Object> answer) {
        String op = String.valueOf(request.get("op"));
        try {
            switch (op) {
                case "describe" -> describe(answer);
                case "decode" -> {
                    ByteBuffer bytes = Notation.bytes(Notation.get(request, "hex"));
                    if (bytes == null)
                        throw Unsupported.badRequest("hex is null");
                    Codec.Decoded decoded = codec(request).decode(bytes);
                    answer.put("ok", true);
                    if (decoded.value() != Codec.NOT_SHOWN)
                        answer.put("value", decoded.value());
                    if (decoded.consumed() != null)
                        answer.put("consumed", decoded.consumed());
                }
                case "encode" -> {
                    ByteBuffer bytes = codec(request).encode(Notation.get(request, "value"), request);
                    answer.put("ok", true);
                    answer.put("hex", Notation.hex(bytes));
                }
                case "size" -> {
                    int size = codec(request).size(Notation.get(request, "value"), request);
                    answer.put("ok", true);
                    answer.put("size", size);
                }
                case "read" -> {
                    Map<String, Object> read = Reading.read(request);
                    answer.put("ok", true);
                    answer.put("value", read);
                }
                case "convert" -> {
                    ByteBuffer bytes = Conversion.convert(request);
                    answer.put("ok", true);
                    answer.put("hex", Notation.hex(bytes));
                }
                case "sequence" -> {
                    List<String> answers = Sequencing.judge(request);
                    answer.put("ok", true);
                    answer.put("value", answers);
                }
                default -> throw new Unsupported("no such operation");
            }
        } catch (Unsupported e) {
            answer.put("unsupported", e.getMessage());
        } catch (Library.Failure e) {
            Throwable thrown = e.getCause();
            if (Library.isRefusal(thrown)) {
                answer.put("ok", false);
                answer.put("error", Library.errorClass(thrown, op));
                answer.put("message", describe(thrown));
            } else {
                answer.put("crash", describe(thrown));
            }
        }
    }

    private Codec codec(Map<String, Object> request) {
        String type = String.valueOf(request.get("type"));
        return type.equals(Messages.TYPE) ? messages.codec(request) : types.codec(type);
    }

    private void describe(Map<String, Object> answer) {
        Map<String, Codec.Doors> doors = new LinkedHashMap<>();
        types.all().forEach((name, codec) -> doors.put(name, codec.doors()));
        doors.put(Messages.TYPE, MessageCodec.DOORS);
        Map<String, Object> supports = new LinkedHashMap<>();
        Map<String, String> via = new LinkedHashMap<>();
        claim("decode", doors, Codec.Doors::decode, supports, via);
        claim("encode", doors, Codec.Doors::encode, supports, via);
        claim("size", doors, Codec.Doors::size, supports, via);
        via.put("read", "internal: KafkaConsumer.poll > FetchCollector > CompletedFetch.fetchRecords");
        via.put("convert", KafkaVersion.CONVERTS_BY);
        via.put("sequence", "internal: a broker's append > ProducerStateManager, ProducerAppendInfo");
        supports.put("read", true);
        supports.put("convert", KafkaVersion.CONVERTS_TO);
        supports.put("sequence", true);
        answer.put("ok", true);
        answer.put("protocol", 1);
        answer.put("name", "kafka-clients");
        answer.put("version", AppInfoParser.getVersion());
        answer.put("language", "java");
        answer.put("supports", supports);
        answer.put("via", via);
        answer.put("codecs", List.of("none", "gzip", "snappy", "lz4", "zstd"));
        answer.put("magics", List.of(0, 1, 2));
        answer.put("surrogates", true);
        answer.put("messages", versions);
    }

    /** Returns the types of an operation with an entry point, and these entry points. */
    private static void claim(String op, Map<String, Codec.Doors> doors, Function<Codec.Doors, String> door,
            Map<String, Object> supports, Map<String, String> via) {
        List<String> names = new ArrayList<>();
        doors.forEach((name, each) -> {
            if (door.apply(each) == null)
                return;
            names.add(name);
            via.put(op + " " + name, door.apply(each));
        });
        supports.put(op, names);
    }

    /** Returns class, message and cause, because Kafka often wraps exceptions; messages may be long. */
    private static String describe(Throwable thrown) {
        StringBuilder text = new StringBuilder();
        int depth = 0;
        for (Throwable t = thrown; t != null && depth++ < 3; t = t.getCause()) {
            if (!text.isEmpty())
                text.append("; caused by ");
            text.append(t.getClass().getSimpleName());
            String message = t.getMessage();
            if (message != null)
                text.append(": ").append(message, 0, Math.min(message.length(), LONGEST_MESSAGE));
        }
        return text.toString();
    }
}
