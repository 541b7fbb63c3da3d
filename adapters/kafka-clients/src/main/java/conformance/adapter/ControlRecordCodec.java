package conformance.adapter;

import org.apache.kafka.common.record.internal.ControlRecordType;

import java.nio.ByteBuffer;
import java.util.Map;

/** CONTROL_RECORD: the key of a control record. Kafka's parser does not return its version. */
final class ControlRecordCodec implements Codec {

    @Override
    public Doors doors() {
        return new Doors("internal: KafkaConsumer.poll > CompletedFetch > ControlRecordType.parse",
            "internal: MemoryRecords.withEndTransactionMarker > ControlRecordType.recordKey",
            "internal: MemoryRecords.withEndTransactionMarker > size of ControlRecordType.recordKey");
    }

    @Override
    public Decoded decode(ByteBuffer bytes) {
        Object shown = Library.call(() -> {
            ControlRecordType type = ControlRecordType.parse(bytes);
            // an unknown type is shown as its number
            return type == ControlRecordType.UNKNOWN ? ControlRecordType.parseTypeId(bytes) : type.name();
        });
        return new Decoded(Map.of("type", shown), null);
    }

    @Override
    public ByteBuffer encode(Object value, Map<?, ?> request) {
        ControlRecordType type = type(value);
        return Library.call(() -> KafkaVersion.controlKey(type));
    }

    @Override
    public int size(Object value, Map<?, ?> request) {
        ControlRecordType type = type(value);
        return Library.call(() -> {
            KafkaVersion.controlKey(type); // rejects UNKNOWN, which has a size
            return KafkaVersion.controlKeySize(type);
        });
    }

    private static ControlRecordType type(Object value) {
        Map<?, ?> key = Notation.object(value);
        if (Notation.int64(key, "version") != 0)
            throw new Unsupported("the API takes no version: it writes 0");
        if (Notation.get(key, "type") instanceof String name && Notation.integer(name) == null)
            return Library.call(() -> ControlRecordType.valueOf(name));
        short id = Notation.int16(key, "type");
        return Library.call(() -> ControlRecordType.fromTypeId(id));
    }
}
