package conformance.adapter;

import org.apache.kafka.common.record.internal.AbstractLegacyRecordBatch;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.record.internal.RecordBatch;
// BufferSupplier is in `utils` up to Kafka 4.3 and in `utils.internals` from 4.4 on: the wildcards find it in either
import org.apache.kafka.common.utils.*;
import org.apache.kafka.common.utils.internals.*;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** Reads one message of magic 0 or 1, and the messages inside a wrapper. */
final class LegacyReader {

    private LegacyReader() {}

    /** The result of Kafka; `entries` is null if they are too large for an answer. */
    record Message(AbstractLegacyRecordBatch outer, List<AbstractLegacyRecordBatch> entries)
            implements BatchReader.Entry {

        @Override
        public Map<String, Object> showInLog() {
            Map<String, Object> shown = new LinkedHashMap<>();
            shown.put("magic", outer.magic());
            shown.put("offset", Long.toString(outer.lastOffset()));
            shown.put("compression", outer.compressionType().name);
            if (entries != null)
                shown.put("messages", show());
            return shown;
        }

        List<Map<String, Object>> show() {
            return entries.stream().map(Message::show).toList();
        }

        private static Map<String, Object> show(AbstractLegacyRecordBatch entry) {
            Map<String, Object> shown = new LinkedHashMap<>();
            shown.put("offset", Long.toString(entry.offset()));
            shown.put("magic", entry.magic());
            if (entry.magic() != RecordBatch.MAGIC_VALUE_V0) {
                shown.put("timestampType", entry.timestampType().name);
                shown.put("timestamp", Long.toString(entry.timestamp()));
            }
            shown.put("key", Notation.hex(entry.key()));
            shown.put("value", Notation.hex(entry.value()));
            return shown;
        }
    }

    /** To be called inside {@link Library#call}. Checks the message and, like a consumer, each inner one. */
    static Message read(AbstractLegacyRecordBatch outer) {
        outer.ensureValid();
        List<AbstractLegacyRecordBatch> entries = new ArrayList<>();
        long room = 0;
        try (var iterator = outer.streamingIterator(BufferSupplier.NO_CACHING)) {
            while (iterator.hasNext()) {
                Record record = iterator.next();
                record.ensureValid();
                room += BatchReader.room(record.keySize(), record.valueSize(), List.of());
                if (room > BatchReader.MOST_SHOWN)
                    entries = null;
                record.key();
                record.value();
                if (entries != null)
                    entries.add((AbstractLegacyRecordBatch) record);
            }
        }
        return new Message(outer, entries);
    }
}
