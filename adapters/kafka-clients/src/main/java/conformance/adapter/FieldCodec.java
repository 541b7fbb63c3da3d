package conformance.adapter;

import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.Readable;

import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Proxy;
import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Map;

/**
 * A type as one field of a message, because only the code generated for each message reads strings and arrays. The
 * fields before and after have their defaults.
 */
final class FieldCodec implements Codec {

    /**
     * A field of a type: the message with the fields that lead to its structure, the version, its name, the bytes of
     * its smallest value, and the number of bytes after it if all later fields have their defaults.
     */
    record Place(String message, List<String> path, int version, String field, int least, int after) {}

    private final Place place;
    private final Structure structure;
    private final MessageCodec codec;
    /** Returns the message with an object in the field that did not come from a reader. */
    private final Map<String, Object> unread;
    private final byte[] before;
    private final byte[] after;

    FieldCodec(String type, Place place, Messages messages) {
        this.place = place;
        Structure in = messages.structure(place.message);
        for (String step : place.path)
            in = in.at(step);
        structure = in;
        codec = new MessageCodec(structure, (short) place.version, Messages.isSent(place.message));
        unread = Map.of(place.field, leastValue(type));
        byte[] whole = Notation.array(Notation.hex(codec.encode(unread, Map.of())));
        int end = whole.length - place.after;
        before = Arrays.copyOf(whole, end - place.least);
        after = Arrays.copyOfRange(whole, end, whole.length);
    }

    private static Object leastValue(String type) {
        if (type.contains("ARRAY<"))
            return List.of();
        return switch (type) {
            case "BOOLEAN" -> false;
            case "FLOAT64" -> "0".repeat(16);
            case "UUID" -> "00000000-0000-0000-0000-000000000000";
            default -> type.contains("INT") ? (Object) 0 : "";
        };
    }

    @Override
    public Doors doors() {
        String name = place.message;
        String generated = name + (Messages.isSent(name) ? "Data" : "");
        if (!Messages.isSent(name))
            return new Doors("internal: KafkaConsumer.poll > ConsumerProtocol > " + generated + ".read",
                "internal: KafkaConsumer.poll > ConsumerProtocol > " + generated + ".write",
                "internal: KafkaConsumer.poll > ConsumerProtocol > " + generated + ".addSize");
        boolean isRequest = name.endsWith("Request");
        String reader = isRequest ? "RequestContext.parseRequest" : "NetworkClient.parseResponse";
        String writer = (isRequest ? "AbstractRequest" : "AbstractResponse") + ".toSend > SendBuilder";
        return new Doors("internal: " + reader + " > " + generated + ".read",
            "internal: " + writer + " > " + generated + ".write",
            "internal: " + writer + " > " + generated + ".addSize");
    }

    @Override
    public Decoded decode(ByteBuffer bytes) {
        ByteBuffer all = ByteBuffer.allocate(before.length + bytes.remaining()).put(before).put(bytes).flip();
        Message message = structure.fill(unread);
        Library.call(() -> {
            message.read(reader(message, all), (short) place.version);
            return null;
        });
        Object value;
        try {
            value = structure.show(message, place.version, new Structure.Room()).get(place.field);
        } catch (Structure.Room.Full e) {
            value = NOT_SHOWN;
        }
        return new Decoded(value, all.position() - before.length);
    }

    /** Reads the value from the bytes, and the rest of the message from the defaults. */
    private Readable reader(Message message, ByteBuffer all) {
        Object unreadValue = structure.get(message, place.field);
        Readable value = new ByteBufferAccessor(all);
        Readable rest = new ByteBufferAccessor(ByteBuffer.wrap(after));
        return (Readable) Proxy.newProxyInstance(Readable.class.getClassLoader(), new Class<?>[] {Readable.class},
            (proxy, method, arguments) -> {
                // one call reads a number
                boolean isRead = structure.isPrimitive(place.field)
                    ? all.position() > before.length : structure.get(message, place.field) != unreadValue;
                try {
                    return method.invoke(isRead ? rest : value, arguments);
                } catch (InvocationTargetException e) {
                    throw e.getCause();
                }
            });
    }

    @Override
    public ByteBuffer encode(Object value, Map<?, ?> request) {
        ByteBuffer whole = codec.encode(of(value), request);
        return whole.slice(before.length, whole.remaining() - before.length - after.length);
    }

    @Override
    public int size(Object value, Map<?, ?> request) {
        return codec.size(of(value), request) - before.length - after.length;
    }

    private Map<String, Object> of(Object value) {
        return Collections.singletonMap(place.field, value); // it accepts null
    }
}
