package conformance.adapter;

import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.record.internal.AbstractLegacyRecordBatch;
import org.apache.kafka.common.record.internal.DefaultRecordBatch;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.record.internal.Records;
// BufferSupplier is in `utils` up to Kafka 4.3 and in `utils.internals` from 4.4 on: the wildcards find it in either
import org.apache.kafka.common.utils.*;
import org.apache.kafka.common.utils.internals.*;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** Reads one whole batch: the checksum first, then every record with key, value and headers. */
final class BatchReader {

    /** About the maximum size of an answer (32 MB); further records are read and counted, but not stored. */
    static final long MOST_SHOWN = 30_000_000;
    private static final long ROOM_PER_RECORD = 150;
    private static final long ROOM_PER_HEADER = 25;

    private BatchReader() {}

    /** One entry of a log. */
    interface Entry {
        Map<String, Object> showInLog();
    }

    /** The result of Kafka; `records` is null if they are too large for an answer. */
    record Batch(DefaultRecordBatch header, List<Record> records) implements Entry {

        @Override
        public Map<String, Object> showInLog() {
            Map<String, Object> shown = new LinkedHashMap<>();
            shown.put("baseOffset", Long.toString(header.baseOffset()));
            shown.put("batchLength", header.sizeInBytes() - Records.LOG_OVERHEAD);
            shown.put("partitionLeaderEpoch", header.partitionLeaderEpoch());
            shown.put("magic", header.magic());
            shown.put("crc", header.checksum());
            shown.put("compression", header.compressionType().name);
            shown.put("timestampType", header.timestampType().name);
            shown.put("isTransactional", header.isTransactional());
            shown.put("isControlBatch", header.isControlBatch());
            shown.put("hasDeleteHorizonMs", header.deleteHorizonMs().isPresent());
            shown.put("lastOffsetDelta", header.lastOffset() - header.baseOffset());
            shown.put("baseTimestamp", Long.toString(header.baseTimestamp()));
            shown.put("maxTimestamp", Long.toString(header.maxTimestamp()));
            shown.put("producerId", Long.toString(header.producerId()));
            shown.put("producerEpoch", header.producerEpoch());
            shown.put("baseSequence", header.baseSequence());
            shown.put("recordCount", header.countOrNull());
            if (records != null)
                shown.put("records", records.stream().map(Batch::show).toList());
            return shown;
        }

        private static Map<String, Object> show(Record record) {
            Map<String, Object> shown = new LinkedHashMap<>();
            shown.put("offset", Long.toString(record.offset()));
            shown.put("timestamp", Long.toString(record.timestamp()));
            RecordParts.showAttributes(record, shown);
            RecordParts.showContent(record, shown);
            return shown;
        }
    }

    /** To be called inside {@link Library#call}. */
    static Entry readAny(RecordBatch batch) {
        return batch instanceof AbstractLegacyRecordBatch message ? LegacyReader.read(message) : read(batch);
    }

    /** To be called inside {@link Library#call}. */
    static Batch read(RecordBatch batch) {
        if (!(batch instanceof DefaultRecordBatch header))
            throw new Unsupported("no batch of magic 2: the reader takes this for a message of magic " + batch.magic());
        header.ensureValid();
        List<Record> records = new ArrayList<>();
        long room = 0;
        // like a consumer: the plain iterator would allocate by the recordCount of a compressed batch
        try (var iterator = header.streamingIterator(BufferSupplier.NO_CACHING)) {
            while (iterator.hasNext()) {
                Record record = iterator.next();
                RecordParts.readAll(record);
                room += room(record.keySize(), record.valueSize(), Arrays.asList(record.headers()));
                if (room > MOST_SHOWN)
                    records = null;
                if (records != null)
                    records.add(record);
            }
        }
        return new Batch(header, records);
    }

    /** Returns the approximate characters of a record in an answer; a size below 0 means null. */
    static long room(int keySize, int valueSize, Iterable<Header> headers) {
        long room = ROOM_PER_RECORD + 2L * Math.max(0, keySize) + 2L * Math.max(0, valueSize);
        for (Header header : headers) {
            // a character may need six in JSON
            room += ROOM_PER_HEADER + 6L * header.key().length();
            room += header.value() == null ? 0 : 2L * header.value().length;
        }
        return room;
    }
}
