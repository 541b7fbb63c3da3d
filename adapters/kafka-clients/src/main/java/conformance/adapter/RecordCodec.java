package conformance.adapter;

import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.record.internal.DefaultRecord;
import org.apache.kafka.common.record.internal.RecordBatch;

import java.io.ByteArrayOutputStream;
import java.io.DataOutputStream;
import java.nio.ByteBuffer;
import java.util.LinkedHashMap;
import java.util.Map;

/** RECORD of magic 2, outside a batch. */
final class RecordCodec implements Codec {

    @Override
    public Doors doors() {
        return new Doors("internal: KafkaConsumer.poll > DefaultRecordBatch.streamingIterator > DefaultRecord.readFrom",
            "internal: KafkaProducer.send > MemoryRecordsBuilder > DefaultRecord.writeTo",
            "internal: KafkaProducer.send > MemoryRecordsBuilder.hasRoomFor > DefaultRecord.sizeInBytes");
    }

    @Override
    public Decoded decode(ByteBuffer bytes) {
        // with bases of 0, Kafka's offset and timestamp are the deltas
        DefaultRecord record = Library.call(() -> {
            DefaultRecord read = DefaultRecord.readFrom(bytes, 0L, 0L, RecordBatch.NO_SEQUENCE, null);
            RecordParts.readAll(read);
            return read;
        });
        Map<String, Object> shown = new LinkedHashMap<>();
        RecordParts.showAttributes(record, shown);
        shown.put("timestampDelta", Long.toString(record.timestamp()));
        shown.put("offsetDelta", record.offset());
        RecordParts.showContent(record, shown);
        return new Decoded(shown, bytes.position());
    }

    @Override
    public ByteBuffer encode(Object value, Map<?, ?> request) {
        Parts parts = parts(value);
        return Library.call(() -> {
            ByteArrayOutputStream bytes = new ByteArrayOutputStream();
            DefaultRecord.writeTo(new DataOutputStream(bytes), parts.offsetDelta, parts.timestampDelta,
                parts.key, parts.value, parts.headers);
            return ByteBuffer.wrap(bytes.toByteArray());
        });
    }

    @Override
    public int size(Object value, Map<?, ?> request) {
        Parts parts = parts(value);
        return Library.call(() -> DefaultRecord.sizeInBytes(parts.offsetDelta, parts.timestampDelta,
            parts.key, parts.value, parts.headers));
    }

    private record Parts(int offsetDelta, long timestampDelta, ByteBuffer key, ByteBuffer value, Header[] headers) {}

    private static Parts parts(Object value) {
        Map<?, ?> record = Notation.object(value);
        if (Notation.int64(record, "attributes") != 0)
            throw new Unsupported("the API takes no record attributes: it writes 0");
        return new Parts(
            Notation.int32(record, "offsetDelta"),
            Notation.int64(record, "timestampDelta"),
            Notation.bytes(Notation.get(record, "key")),
            Notation.bytes(Notation.get(record, "value")),
            RecordParts.headers(record));
    }
}
