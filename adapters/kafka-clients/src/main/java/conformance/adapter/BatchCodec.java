package conformance.adapter;

import org.apache.kafka.common.InvalidRecordException;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.CompressionType;
import org.apache.kafka.common.record.internal.ControlRecordType;
import org.apache.kafka.common.record.internal.DefaultRecordBatch;
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

/** RECORD_BATCH of magic 2. */
final class BatchCodec implements Codec {

    @Override
    public Decoded decode(ByteBuffer bytes) {
        BatchReader.Batch batch = Library.call(() -> {
            Iterator<MutableRecordBatch> batches = MemoryRecords.readableRecords(bytes).batches().iterator();
            // where the bytes end inside a batch, Kafka gives none and no error
            return batches.hasNext() ? BatchReader.read(batches.next()) : null;
        });
        if (batch == null)
            throw new Library.Failure(new InvalidRecordException("no complete batch"));
        return new Decoded(batch.showInLog(), batch.header().sizeInBytes());
    }

    @Override
    public ByteBuffer encode(Object value, Map<?, ?> request) {
        Map<?, ?> batch = Notation.object(value);
        List<OffsetRecord> records = records(batch);
        boolean isControlBatch = Notation.bool(batch, "isControlBatch");
        if (isControlBatch)
            records.forEach(BatchCodec::requireControlKey);
        Compression compression = compression(batch);
        TimestampType timestampType = timestampType(batch);
        long baseOffset = Notation.int64(batch, "baseOffset");
        long producerId = Notation.int64(batch, "producerId");
        short producerEpoch = Notation.int16(batch, "producerEpoch");
        int baseSequence = Notation.int32(batch, "baseSequence");
        int partitionLeaderEpoch = Notation.int32(batch, "partitionLeaderEpoch");
        boolean isTransactional = Notation.bool(batch, "isTransactional");
        // the builder takes the append time from outside; the request's is that of its records
        long logAppendTime = timestampType == TimestampType.LOG_APPEND_TIME
            ? records.stream().mapToLong(record -> record.content.timestamp()).max().orElseThrow()
            : RecordBatch.NO_TIMESTAMP;
        ByteBuffer buffer = ByteBuffer.allocate(DefaultRecordBatch.RECORD_BATCH_OVERHEAD + 1024); // it grows

        return Library.call(() -> {
            MemoryRecordsBuilder builder = new MemoryRecordsBuilder(buffer, RecordBatch.MAGIC_VALUE_V2, compression,
                timestampType, baseOffset, logAppendTime, producerId, producerEpoch, baseSequence, isTransactional,
                isControlBatch, partitionLeaderEpoch, Integer.MAX_VALUE);
            try {
                for (OffsetRecord record : records) {
                    if (isControlBatch)
                        builder.appendControlRecordWithOffset(record.offset, record.content);
                    else
                        builder.appendWithOffset(record.offset, record.content);
                }
                return builder.build().buffer();
            } catch (Throwable e) {
                builder.closeForRecordAppends(); // frees what the compressor holds outside the heap
                throw e;
            }
        });
    }

    @Override
    public int size(Object value, Map<?, ?> request) {
        Map<?, ?> batch = Notation.object(value);
        List<OffsetRecord> records = records(batch);
        if (compression(batch).type() != CompressionType.NONE)
            throw new Unsupported("the size API is for uncompressed batches");
        long offset = Notation.int64(batch, "baseOffset");
        List<SimpleRecord> contents = new ArrayList<>(records.size());
        for (OffsetRecord record : records) {
            if (record.offset != offset++)
                throw new Unsupported("the size API takes no offsets: it counts 0, 1, 2...");
            contents.add(record.content);
        }
        return Library.call(() -> DefaultRecordBatch.sizeInBytes(contents));
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

    /** The builder takes control records only with a key of a type it knows. */
    private static void requireControlKey(OffsetRecord record) {
        ByteBuffer key = record.content.key();
        try {
            if (key != null && ControlRecordType.parse(key) != ControlRecordType.UNKNOWN)
                return;
        } catch (InvalidRecordException ignored) {
            // no control key
        }
        throw new Unsupported("the API takes control records of the types it knows only");
    }

    /** The codec that the object names, at its default level. */
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
