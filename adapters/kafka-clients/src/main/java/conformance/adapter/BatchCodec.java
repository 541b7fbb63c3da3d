package conformance.adapter;

import org.apache.kafka.common.InvalidRecordException;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.CompressionType;
import org.apache.kafka.common.record.internal.ControlRecordType;
import org.apache.kafka.common.record.internal.DefaultRecordBatch;
import org.apache.kafka.common.record.internal.EndTransactionMarker;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MemoryRecordsBuilder;
import org.apache.kafka.common.record.internal.MutableRecordBatch;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.record.internal.SimpleRecord;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.function.Function;

/** RECORD_BATCH of magic 2. */
final class BatchCodec implements Codec {

    @Override
    public Doors doors() {
        return new Doors("internal: KafkaConsumer.poll > CompletedFetch > DefaultRecordBatch.ensureValid and iterator",
            "internal: KafkaProducer.send > ProducerBatch > MemoryRecordsBuilder",
            "internal: KafkaProducer.send > ProducerBatch > MemoryRecordsBuilder.estimatedSizeInBytes");
    }

    @Override
    public Decoded decode(ByteBuffer bytes) {
        BatchReader.Batch batch = Library.call(() -> {
            Iterator<MutableRecordBatch> batches = MemoryRecords.readableRecords(bytes).batches().iterator();
            // for bytes that end inside a batch, Kafka returns no batch and no error
            return batches.hasNext() ? BatchReader.read(batches.next()) : null;
        });
        if (batch == null)
            throw new Library.Failure(new InvalidRecordException("no complete batch"));
        return new Decoded(batch.showInLog(), batch.header().sizeInBytes());
    }

    @Override
    public ByteBuffer encode(Object value, Map<?, ?> request) {
        Map<?, ?> batch = Notation.object(value);
        if (Notation.bool(batch, "isControlBatch"))
            return marker(batch);
        return built(batch, builder -> builder.build().buffer());
    }

    @Override
    public int size(Object value, Map<?, ?> request) {
        Map<?, ?> batch = Notation.object(value);
        if (compression(batch).type() != CompressionType.NONE)
            throw new Unsupported("the builder only estimates the size of what is compressed");
        if (Notation.bool(batch, "isControlBatch"))
            throw new Unsupported("no API tells the size of a marker");
        return built(batch, MemoryRecordsBuilder::estimatedSizeInBytes);
    }

    /** Returns the builder's bytes for the records of a batch, built like in a producer. */
    private static <T> T built(Map<?, ?> batch, Function<MemoryRecordsBuilder, T> result) {
        List<OffsetRecord> records = records(batch);
        Compression compression = compression(batch);
        TimestampType timestampType = timestampType(batch);
        long baseOffset = Notation.int64(batch, "baseOffset");
        long producerId = Notation.int64(batch, "producerId");
        short producerEpoch = Notation.int16(batch, "producerEpoch");
        int baseSequence = Notation.int32(batch, "baseSequence");
        int partitionLeaderEpoch = Notation.int32(batch, "partitionLeaderEpoch");
        boolean isTransactional = Notation.bool(batch, "isTransactional");
        // the builder needs the append time as an argument; it is the timestamp of the request's records
        long logAppendTime = timestampType == TimestampType.LOG_APPEND_TIME
            ? records.stream().mapToLong(record -> record.content.timestamp()).max().orElseThrow()
            : RecordBatch.NO_TIMESTAMP;
        ByteBuffer buffer = ByteBuffer.allocate(DefaultRecordBatch.RECORD_BATCH_OVERHEAD + 1024); // it grows

        return Library.call(() -> {
            MemoryRecordsBuilder builder = new MemoryRecordsBuilder(buffer, RecordBatch.MAGIC_VALUE_V2, compression,
                timestampType, baseOffset, logAppendTime, producerId, producerEpoch, baseSequence, isTransactional,
                false, partitionLeaderEpoch, Integer.MAX_VALUE);
            try {
                for (OffsetRecord record : records)
                    builder.appendWithOffset(record.offset, record.content);
                return result.apply(builder);
            } catch (Throwable e) {
                builder.closeForRecordAppends(); // frees the compressor's memory outside the heap
                throw e;
            }
        });
    }

    /** Returns the marker at the end of a transaction, the control batch that a broker writes. */
    private static ByteBuffer marker(Map<?, ?> batch) {
        OffsetRecord record = records(batch).get(0);
        SimpleRecord content = record.content;
        ControlRecordType type = markerType(content.key());
        ByteBuffer value = content.value();
        boolean isMarker = type != null && value != null && value.remaining() == 6 && value.getShort(0) == 0
            && content.headers().length == 0 && records(batch).size() == 1
            && record.offset == Notation.int64(batch, "baseOffset") && Notation.bool(batch, "isTransactional")
            && Notation.int32(batch, "baseSequence") == RecordBatch.NO_SEQUENCE
            && compression(batch).type() == CompressionType.NONE && timestampType(batch) == TimestampType.CREATE_TIME;
        if (!isMarker)
            throw new Unsupported("of control batches, the API makes the markers of transactions only");
        long producerId = Notation.int64(batch, "producerId");
        short producerEpoch = Notation.int16(batch, "producerEpoch");
        int partitionLeaderEpoch = Notation.int32(batch, "partitionLeaderEpoch");
        return Library.call(() -> MemoryRecords.withEndTransactionMarker(record.offset, content.timestamp(),
            partitionLeaderEpoch, producerId, producerEpoch, new EndTransactionMarker(type, value.getInt(2))).buffer());
    }

    private static ControlRecordType markerType(ByteBuffer key) {
        if (key == null || key.remaining() != 4 || key.getShort(0) != 0)
            return null;
        return switch (key.getShort(2)) {
            case 0 -> ControlRecordType.ABORT;
            case 1 -> ControlRecordType.COMMIT;
            default -> null;
        };
    }

    private record OffsetRecord(long offset, SimpleRecord content) {}

    private static List<OffsetRecord> records(Map<?, ?> batch) {
        List<OffsetRecord> records = new ArrayList<>();
        for (Object entry : Notation.list(Notation.get(batch, "records"))) {
            Map<?, ?> record = Notation.object(entry);
            if (record.containsKey("attributes") && Notation.int64(record, "attributes") != 0)
                throw new Unsupported("the API takes no record attributes: it writes 0");
            long offset = Notation.int64(record, "offset");
            long timestamp = Notation.int64(record, "timestamp");
            ByteBuffer key = Notation.bytes(Notation.get(record, "key"));
            ByteBuffer value = Notation.bytes(Notation.get(record, "value"));
            Header[] headers = RecordParts.headers(record);
            records.add(new OffsetRecord(offset,
                Library.call(() -> new SimpleRecord(timestamp, key, value, headers))));
        }
        if (records.isEmpty())
            throw new Unsupported("the builder writes nothing when it has no records");
        return records;
    }

    /** Returns the named codec at its default level. */
    static Compression compression(Map<?, ?> batch) {
        String name = Notation.text(batch, "compression");
        for (CompressionType type : CompressionType.values())
            if (type.name.equals(name))
                return Library.call(() -> Compression.of(type).build());
        throw new Unsupported("the API has no such codec");
    }

    private static TimestampType timestampType(Map<?, ?> batch) {
        String name = Notation.text(batch, "timestampType");
        for (TimestampType type : TimestampType.values())
            if (type.name.equals(name))
                return type;
        throw new Unsupported("the API has no such timestamp type");
    }
}
