package conformance.adapter;

import org.apache.kafka.common.protocol.types.RawTaggedField;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** TAGGED_FIELDS, all tags unknown: a message with no other field, ListGroupsRequest 3. */
final class TaggedFieldsCodec implements Codec {

    private static final String MESSAGE = "ListGroupsRequest";
    private static final short VERSION = 3;

    private final MessageCodec codec;

    TaggedFieldsCodec(Messages messages) {
        codec = new MessageCodec(messages.structure(MESSAGE), VERSION, true);
    }

    @Override
    public Doors doors() {
        return new Doors("internal: RequestContext.parseRequest > ListGroupsRequestData.read",
            "internal: AbstractRequest.toSend > SendBuilder > ListGroupsRequestData.write",
            "internal: AbstractRequest.toSend > SendBuilder > ListGroupsRequestData.addSize");
    }

    @Override
    public Decoded decode(ByteBuffer bytes) {
        Decoded message = codec.decode(bytes);
        Object value = message.value() instanceof Map<?, ?> fields
            ? fields.containsKey(Structure.UNKNOWN) ? fields.get(Structure.UNKNOWN) : List.of() : NOT_SHOWN;
        return new Decoded(value, message.consumed());
    }

    @Override
    public ByteBuffer encode(Object value, Map<?, ?> request) {
        return codec.encode(Map.of(Structure.UNKNOWN, Notation.list(value)), request);
    }

    @Override
    public int size(Object value, Map<?, ?> request) {
        return codec.size(Map.of(Structure.UNKNOWN, Notation.list(value)), request);
    }

    /** Returns fields in Kafka's form of unknown tagged fields. */
    static List<Object> show(Collection<?> fields) {
        List<Object> list = new ArrayList<>();
        for (Object entry : fields) {
            RawTaggedField field = (RawTaggedField) entry;
            Map<String, Object> shown = new LinkedHashMap<>();
            shown.put("tag", Integer.toUnsignedLong(field.tag()));
            shown.put("data", Notation.hex(field.data()));
            list.add(shown);
        }
        return list;
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
