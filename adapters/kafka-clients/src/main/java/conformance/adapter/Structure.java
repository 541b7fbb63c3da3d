package conformance.adapter;

import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.types.RawTaggedField;
import org.apache.kafka.common.record.internal.MemoryRecords;

import java.lang.reflect.Constructor;
import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * A message, or a structure in one: the class that Kafka generated for it, whose fields go by the names of the
 * definition. Defaults, ranges, and what may be null or is in no version, are left to that class.
 */
final class Structure {

    static final String UNKNOWN = "_unknownTaggedFields";

    private final Constructor<? extends Message> constructor;
    private final Map<String, Field> fields = new LinkedHashMap<>();

    /** `structure` is null where the type, or that of a list's elements, is a scalar. */
    private record Field(String name, Versions versions, String type, Structure structure, boolean isList,
                         boolean isZeroCopy, Method getter, Method setter) {

        /** What the field, or a list for it, is made of. */
        Class<?> javaType() {
            return setter.getParameterTypes()[0];
        }
    }

    /** How many characters an answer may still take. */
    static final class Room {

        /** The answer would be too long. */
        static final class Full extends RuntimeException {
            Full() {
                super(null, null, false, false);
            }
        }

        private static final int PER_TEXT = 4; // quotes, and a colon or comma
        private static final int PER_NUMBER = 10;

        private long left = BatchReader.MOST_SHOWN;

        private void take(Object shown) {
            left -= shown instanceof String text ? text.length() + PER_TEXT : PER_NUMBER;
            if (left < 0)
                throw new Full();
        }
    }

    /**
     * The fields as a definition lists them; `shared` are those of the structures that stand beside a message's fields.
     * All structures of a message are classes nested in the message's.
     */
    Structure(Class<?> message, Class<?> own, List<?> definitions, Map<String, List<?>> shared)
            throws ReflectiveOperationException {
        constructor = own.asSubclass(Message.class).getConstructor();
        for (Object entry : definitions) {
            Map<?, ?> definition = Notation.object(entry);
            String name = Notation.text(definition, "name");
            String type = Notation.text(definition, "type");
            boolean isList = type.startsWith("[]");
            String element = isList ? type.substring(2) : type;
            Structure structure = null;
            if (Character.isUpperCase(element.charAt(0))) {
                Object inner = definition.get("fields");
                structure = new Structure(message, Class.forName(message.getName() + "$" + element),
                    inner != null ? Notation.list(inner) : shared.get(element), shared);
            }
            String setter = "set" + Character.toUpperCase(name.charAt(0)) + name.substring(1);
            fields.put(name, new Field(
                name, Versions.of(definition.get("versions")), element, structure, isList,
                Boolean.TRUE.equals(definition.get("zeroCopy")),
                own.getMethod(Character.toLowerCase(name.charAt(0)) + name.substring(1)),
                Arrays.stream(own.getMethods()).filter(m -> m.getName().equals(setter)).findFirst().orElseThrow()));
        }
    }

    /** The structure in a field. */
    Structure at(String field) {
        return fields.get(field).structure;
    }

    /** What a field of a message holds. */
    Object get(Message message, String field) {
        return Library.call(() -> fields.get(field).getter.invoke(message));
    }

    /** Whether a field is a number, which no message can be without. */
    boolean isPrimitive(String field) {
        return fields.get(field).javaType().isPrimitive();
    }

    /** With every field at its default. */
    Message create() {
        return Library.call(constructor::newInstance);
    }

    /** The fields that the version has, in the protocol's notation. Throws Room.Full. */
    Map<String, Object> show(Message message, int version, Room room) {
        Map<String, Object> shown = new LinkedHashMap<>();
        for (Field field : fields.values()) {
            if (!field.versions.has(version))
                continue;
            room.take(field.name);
            Object value = Library.call(() -> field.getter.invoke(message));
            if (field.isList && value != null) {
                List<Object> list = new ArrayList<>();
                for (Object element : (Collection<?>) value)
                    list.add(show(field, element, version, room));
                shown.put(field.name, list);
            } else {
                shown.put(field.name, show(field, value, version, room));
            }
        }
        List<RawTaggedField> unknown = Library.call(message::unknownTaggedFields);
        if (!unknown.isEmpty()) {
            List<Object> list = TaggedFieldsCodec.show(unknown);
            list.forEach(entry -> room.take(entry.toString()));
            shown.put(UNKNOWN, list);
        }
        return shown;
    }

    private static Object show(Field field, Object value, int version, Room room) {
        if (field.structure != null && value != null)
            return field.structure.show((Message) value, version, room);
        Object shown = field.type.equals("uint32") ? value : Notation.show(value);
        room.take(shown);
        return shown;
    }

    /** A message of these values, what is missing at its default. */
    Message fill(Object value) {
        Message message = create();
        Notation.object(value).forEach((key, given) -> {
            if (key.equals(UNKNOWN)) {
                List<RawTaggedField> unknown = TaggedFieldsCodec.fields(given);
                Library.call(() -> message.unknownTaggedFields().addAll(unknown));
                return;
            }
            Field field = fields.get(key);
            if (field == null)
                throw new Unsupported("Kafka's class has no such field: " + key);
            Object javaValue = field.isList ? javaList(field, given) : javaValue(field, given);
            if (javaValue == null && field.javaType().isPrimitive())
                throw new Unsupported(key + ": the API takes no null");
            Library.call(() -> field.setter.invoke(message, javaValue));
        });
        return message;
    }

    private static Collection<Object> javaList(Field field, Object given) {
        if (given == null)
            return null;
        Collection<Object> list = Library.call(() -> newList(field.javaType()));
        for (Object element : Notation.list(given))
            // filled before it is added: where there are keys, its place depends on them
            if (!list.add(javaValue(field, element)))
                throw new Unsupported(field.name + ": the API takes no null in it");
        return list;
    }

    @SuppressWarnings("unchecked")
    private static Collection<Object> newList(Class<?> type) throws ReflectiveOperationException {
        return type == List.class ? new ArrayList<>() : (Collection<Object>) type.getConstructor().newInstance();
    }

    private static Object javaValue(Field field, Object given) {
        if (given == null)
            return null;
        if (field.structure != null)
            return field.structure.fill(given);
        return switch (field.type) {
            case "bool" -> Notation.asBool(given, field.name);
            case "int8" -> (byte) Notation.asInteger(given, field.name, Byte.MIN_VALUE, Byte.MAX_VALUE, "byte");
            case "int16" -> (short) Notation.asInteger(given, field.name, Short.MIN_VALUE, Short.MAX_VALUE, "short");
            // the setter has the word on 16 bits
            case "uint16", "int32" ->
                (int) Notation.asInteger(given, field.name, Integer.MIN_VALUE, Integer.MAX_VALUE, "int");
            case "uint32", "int64" -> Notation.asInteger(given, field.name, Long.MIN_VALUE, Long.MAX_VALUE, "long");
            case "float64" -> Notation.float64(given);
            case "uuid" -> Notation.uuid(given);
            case "string" -> Notation.asText(given, field.name);
            case "bytes" -> field.isZeroCopy ? Notation.bytes(given) : Notation.array(given);
            case "records" -> MemoryRecords.readableRecords(Notation.bytes(given));
            default -> throw new Unsupported("no such type: " + field.type);
        };
    }
}
