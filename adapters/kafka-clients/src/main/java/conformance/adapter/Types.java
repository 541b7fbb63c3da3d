package conformance.adapter;

import org.apache.kafka.common.protocol.types.ArrayOf;
import org.apache.kafka.common.protocol.types.CompactArrayOf;
import org.apache.kafka.common.protocol.types.Type;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Function;

/** From the protocol's type names to codecs. */
final class Types {

    private static final int DEEPEST = 32;
    private static final int MOST_KEPT = 1000;

    private final Map<String, Type> primitives = new LinkedHashMap<>();
    private final Map<String, Function<Type, Type>> arrays = new LinkedHashMap<>();
    private final Map<String, Codec> others = new LinkedHashMap<>();
    private final Map<String, Codec> known = new HashMap<>();

    Types() {
        primitives.put("BOOLEAN", Type.BOOLEAN);
        primitives.put("INT8", Type.INT8);
        primitives.put("INT16", Type.INT16);
        primitives.put("UINT16", Type.UINT16);
        primitives.put("INT32", Type.INT32);
        primitives.put("UINT32", Type.UNSIGNED_INT32);
        primitives.put("INT64", Type.INT64);
        primitives.put("VARINT", Type.VARINT);
        primitives.put("VARLONG", Type.VARLONG);
        primitives.put("FLOAT64", Type.FLOAT64);
        primitives.put("UUID", Type.UUID);
        primitives.put("STRING", Type.STRING);
        primitives.put("NULLABLE_STRING", Type.NULLABLE_STRING);
        primitives.put("COMPACT_STRING", Type.COMPACT_STRING);
        primitives.put("COMPACT_NULLABLE_STRING", Type.COMPACT_NULLABLE_STRING);
        primitives.put("BYTES", Type.BYTES);
        primitives.put("NULLABLE_BYTES", Type.NULLABLE_BYTES);
        primitives.put("COMPACT_BYTES", Type.COMPACT_BYTES);
        primitives.put("COMPACT_NULLABLE_BYTES", Type.COMPACT_NULLABLE_BYTES);
        primitives.put("RECORDS", Type.RECORDS);
        primitives.put("COMPACT_RECORDS", Type.COMPACT_RECORDS);

        arrays.put("ARRAY", ArrayOf::new);
        arrays.put("COMPACT_ARRAY", CompactArrayOf::new);
        arrays.put("NULLABLE_ARRAY", ArrayOf::nullable);
        arrays.put("COMPACT_NULLABLE_ARRAY", CompactArrayOf::nullable);

        others.put("UNSIGNED_VARINT", new UnsignedVarintCodec());
        others.put("TAGGED_FIELDS", new TaggedFieldsCodec());
        others.put("RECORD", new RecordCodec());
        others.put("RECORD_BATCH", new BatchCodec());
        others.put("CONTROL_RECORD", new ControlRecordCodec());
        others.put("LOG", new LogCodec());
        others.put("MESSAGE_SET", new MessageSetCodec());

        primitives.forEach((name, type) -> known.put(name, new TypeCodec(type)));
        known.putAll(others);
    }

    /** The names for `describe`. */
    List<String> names() {
        List<String> names = new ArrayList<>(primitives.keySet());
        names.addAll(arrays.keySet());
        names.addAll(others.keySet());
        return names;
    }

    Codec codec(String name) {
        Codec codec = known.get(name);
        if (codec == null) {
            codec = new TypeCodec(type(name, 0));
            if (known.size() < MOST_KEPT)
                known.put(name, codec);
        }
        return codec;
    }

    private Type type(String name, int depth) {
        int bracket = name.indexOf('<');
        if (bracket < 0) {
            Type type = primitives.get(name);
            if (type != null)
                return type;
        } else if (name.endsWith(">") && depth < DEEPEST) {
            Function<Type, Type> array = arrays.get(name.substring(0, bracket));
            if (array != null)
                return array.apply(type(name.substring(bracket + 1, name.length() - 1), depth + 1));
        }
        throw new Unsupported("no such type: " + name);
    }
}
