package conformance.adapter;

import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.AbstractLegacyRecordBatch;
import org.apache.kafka.common.record.internal.CompressionType;
import org.apache.kafka.common.record.internal.LegacyRecord;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MemoryRecordsBuilder;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.record.internal.Records;
import org.apache.kafka.common.record.internal.SimpleRecord;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/** MESSAGE_SET: messages of magic 0 and 1, one after another or in one wrapper. */
final class MessageSetCodec implements Codec {

    @Override
    public Doors doors() {
        return new Doors("internal: KafkaConsumer.poll > CompletedFetch > AbstractLegacyRecordBatch.iterator",
            "internal: log cleaner > MemoryRecords.filterTo > MemoryRecordsBuilder",
            "internal: log cleaner > MemoryRecords.filterTo > MemoryRecordsBuilder > LegacyRecord.recordSize");
    }

    @Override
    public Decoded decode(ByteBuffer bytes) {
        List<LegacyReader.Message> messages = new ArrayList<>();
        int consumed = Library.call(() -> {
            MemoryRecords records = MemoryRecords.readableRecords(bytes);
            for (RecordBatch batch : records.batches()) {
                // Kafka has one reader for all magics, and none for only message sets
                if (!(batch instanceof AbstractLegacyRecordBatch message))
                    throw new Unsupported("no message: the reader takes this for a batch of magic 2");
                messages.add(LegacyReader.read(message));
            }
            return records.validBytes();
        });
        if (messages.stream().anyMatch(message -> message.entries() == null))
            return new Decoded(NOT_SHOWN, consumed);
        return new Decoded(messages.stream().flatMap(message -> message.show().stream()).toList(), consumed);
    }

    @Override
    public ByteBuffer encode(Object value, Map<?, ?> request) {
        byte magic = magic(request);
        List<Entry> entries = entries(value, magic);
        Compression compression = BatchCodec.compression(request);
        TimestampType timestampType = timestampType(entries, magic);
        long logAppendTime = timestampType == TimestampType.LOG_APPEND_TIME
            ? entries.get(0).content.timestamp() : RecordBatch.NO_TIMESTAMP;
        long baseOffset = entries.isEmpty() ? 0 : entries.get(0).offset;
        ByteBuffer buffer = ByteBuffer.allocate(1024); // it grows

        return Library.call(() -> {
            MemoryRecordsBuilder builder = new MemoryRecordsBuilder(buffer, magic, compression, timestampType,
                baseOffset, logAppendTime, RecordBatch.NO_PRODUCER_ID, RecordBatch.NO_PRODUCER_EPOCH,
                RecordBatch.NO_SEQUENCE, false, false, RecordBatch.NO_PARTITION_LEADER_EPOCH, Integer.MAX_VALUE);
            try {
                for (Entry entry : entries)
                    builder.appendWithOffset(entry.offset, entry.content);
                return builder.build().buffer();
            } catch (Throwable e) {
                builder.closeForRecordAppends(); // frees the compressor's memory outside the heap
                throw e;
            }
        });
    }

    @Override
    public int size(Object value, Map<?, ?> request) {
        byte magic = magic(request);
        CompressionType compression = BatchCodec.compression(request).type();
        if (compression != CompressionType.NONE)
            throw new Unsupported("no API tells the size of what is compressed");
        List<SimpleRecord> contents = entries(value, magic).stream().map(Entry::content).toList();
        return Library.call(() -> contents.stream().mapToInt(record -> Records.LOG_OVERHEAD
            + LegacyRecord.recordSize(magic, remaining(record.key()), remaining(record.value()))).sum());
    }

    private static int remaining(ByteBuffer bytes) {
        return bytes == null ? 0 : bytes.remaining();
    }

    private record Entry(long offset, String timestampType, SimpleRecord content) {}

    private static List<Entry> entries(Object value, byte magic) {
        List<Entry> entries = new ArrayList<>();
        for (Object each : Notation.list(value)) {
            Map<?, ?> entry = Notation.object(each);
            long offset = Notation.int64(entry, "offset");
            long timestamp = magic == RecordBatch.MAGIC_VALUE_V0
                ? RecordBatch.NO_TIMESTAMP : Notation.int64(entry, "timestamp");
            ByteBuffer key = Notation.bytes(Notation.get(entry, "key"));
            ByteBuffer content = Notation.bytes(Notation.get(entry, "value"));
            String timestampType = entry.containsKey("timestampType")
                ? Notation.text(entry, "timestampType") : TimestampType.CREATE_TIME.name;
            entries.add(new Entry(offset, timestampType,
                Library.call(() -> new SimpleRecord(timestamp, key, content))));
        }
        return entries;
    }

    /** The builder writes the same timestamp type and append time in all messages. */
    private static TimestampType timestampType(List<Entry> entries, byte magic) {
        if (magic == RecordBatch.MAGIC_VALUE_V0)
            return TimestampType.NO_TIMESTAMP_TYPE;
        if (entries.stream().allMatch(entry -> TimestampType.CREATE_TIME.name.equals(entry.timestampType)))
            return TimestampType.CREATE_TIME;
        if (entries.stream().allMatch(entry -> TimestampType.LOG_APPEND_TIME.name.equals(entry.timestampType))
                && entries.stream().map(entry -> entry.content.timestamp()).distinct().count() == 1)
            return TimestampType.LOG_APPEND_TIME;
        throw new Unsupported("the API takes one timestamp type, and one time of appending, for all messages");
    }

    private static byte magic(Map<?, ?> request) {
        long magic = Notation.int64(request, "magic");
        if (magic != RecordBatch.MAGIC_VALUE_V0 && magic != RecordBatch.MAGIC_VALUE_V1)
            throw Unsupported.badRequest("message sets are of magic 0 or 1");
        return (byte) magic;
    }
}
