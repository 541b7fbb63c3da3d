package conformance.adapter;

import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.types.RawTaggedField;
import org.apache.kafka.common.protocol.types.RawTaggedFieldWriter;
import org.apache.kafka.common.protocol.types.TaggedFields;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.NavigableMap;
import java.util.TreeMap;

/**
 * TAGGED_FIELDS, all tags unknown. Reading and sizes: the generic TaggedFields type. Writing: the writer that the
 * generated messages use, as it takes a list and checks its order, where the generic type sorts.
 */
final class TaggedFieldsCodec implements Codec {

    private static final int MAX_VARINT_BYTES = 5;

    private final TaggedFields type = TaggedFields.of();

    @Override
    public Decoded decode(ByteBuffer bytes) {
        NavigableMap<Integer, Object> fields = Library.call(() -> type.read(bytes));
        return new Decoded(show(fields.values()), bytes.position());
    }

    /** Fields as Kafka keeps those that it does not know. */
    static List<Object> show(Collection<?> fields) {
        List<Object> list = new ArrayList<>();
        for (Object entry : fields) {
            RawTaggedField field = (RawTaggedField) entry;
            Map<String, Object> shown = new LinkedHashMap<>();
            shown.put("tag", field.tag());
            shown.put("data", Notation.hex(field.data()));
            list.add(shown);
        }
        return list;
    }

    @Override
    public ByteBuffer encode(Object value, Map<?, ?> request) {
        List<RawTaggedField> fields = fields(value);
        int room = MAX_VARINT_BYTES;
        for (RawTaggedField field : fields)
            room += 2 * MAX_VARINT_BYTES + field.size();
        ByteBuffer buffer = ByteBuffer.allocate(room);
        return Library.call(() -> {
            RawTaggedFieldWriter writer = RawTaggedFieldWriter.forFields(fields);
            ByteBufferAccessor output = new ByteBufferAccessor(buffer);
            output.writeUnsignedVarint(writer.numFields());
            writer.writeRawTags(output, Integer.MAX_VALUE); // as the generated classes do after their last known tag
            return buffer.flip();
        });
    }

    @Override
    public int size(Object value, Map<?, ?> request) {
        NavigableMap<Integer, Object> sorted = new TreeMap<>();
        for (RawTaggedField field : fields(value)) {
            if (!sorted.isEmpty() && field.tag() <= sorted.lastKey())
                throw new Unsupported("the size API takes a map sorted by tag");
            sorted.put(field.tag(), field);
        }
        return Library.call(() -> type.sizeOf(sorted));
    }

    static List<RawTaggedField> fields(Object value) {
        List<RawTaggedField> fields = new ArrayList<>();
        for (Object entry : Notation.list(value)) {
            Map<?, ?> field = Notation.object(entry);
            byte[] data = Notation.array(Notation.get(field, "data"));
            if (data == null)
                throw Unsupported.badRequest("data is null");
            fields.add(new RawTaggedField(Notation.int32(field, "tag"), data));
        }
        return fields;
    }
}
