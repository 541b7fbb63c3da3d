package conformance.adapter;

import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.internals.OpenedFetch;
import org.apache.kafka.common.IsolationLevel;
import org.apache.kafka.common.message.FetchResponseData;
import org.apache.kafka.common.record.internal.MemoryRecords;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** The operation `read`: the records of the consumer for an application from one fetch. */
final class Reading {

    private Reading() {}

    /**
     * Returns the records in order and the next offset; after damage also the error class, with the records before it.
     * Throws Library.Failure if Kafka failed before the first record.
     */
    static Map<String, Object> read(Map<String, Object> request) {
        ByteBuffer bytes = Notation.bytes(Notation.get(request, "hex"));
        if (bytes == null)
            throw Unsupported.badRequest("hex is null");
        long fetchOffset = Notation.int64(request, "fetchOffset");
        long highWatermark = Notation.int64(request, "highWatermark");
        IsolationLevel isolation = isolation(Notation.text(request, "isolation"));
        boolean checkCrcs = !request.containsKey("checkCrcs") || Notation.bool(request, "checkCrcs");
        FetchResponseData.PartitionData data = new FetchResponseData.PartitionData()
            .setHighWatermark(highWatermark)
            .setLastStableOffset(highWatermark)
            .setLogStartOffset(0)
            .setAbortedTransactions(aborted(request));

        OpenedFetch fetch = Library.call(() -> new OpenedFetch(
            data.setRecords(MemoryRecords.readableRecords(bytes)), fetchOffset, isolation, checkCrcs));
        List<Map<String, Object>> records = new ArrayList<>();
        boolean isAny = false;
        long room = 0;
        Throwable error = null;
        try {
            for (var next = Library.call(fetch::next); !next.isEmpty(); next = Library.call(fetch::next)) {
                isAny = true;
                for (ConsumerRecord<byte[], byte[]> record : next) {
                    room += room(record);
                    if (room > BatchReader.MOST_SHOWN)
                        records = null;
                    if (records != null)
                        records.add(show(record));
                }
            }
        } catch (Library.Failure e) {
            error = e.getCause();
            if (!isAny || !Library.isRefusal(error))
                throw e;
        }
        Map<String, Object> shown = new LinkedHashMap<>();
        if (records != null)
            shown.put("records", records);
        shown.put("nextOffset", Long.toString(fetch.nextOffset()));
        if (error != null)
            shown.put("error", Library.errorClass(error, "read"));
        return shown;
    }

    /** Returns a record of the consumer in notation. */
    static Map<String, Object> show(ConsumerRecord<byte[], byte[]> record) {
        Map<String, Object> shown = new LinkedHashMap<>();
        shown.put("offset", Long.toString(record.offset()));
        shown.put("timestamp", Long.toString(record.timestamp()));
        shown.put("timestampType", record.timestampType().name);
        shown.put("key", Notation.hex(record.key()));
        shown.put("value", Notation.hex(record.value()));
        shown.put("headers", RecordParts.show(record.headers()));
        return shown;
    }

    private static long room(ConsumerRecord<byte[], byte[]> record) {
        return BatchReader.room(record.serializedKeySize(), record.serializedValueSize(), record.headers());
    }

    private static List<FetchResponseData.AbortedTransaction> aborted(Map<String, Object> request) {
        List<FetchResponseData.AbortedTransaction> aborted = new ArrayList<>();
        for (Object entry : Notation.list(Notation.get(request, "aborted"))) {
            Map<?, ?> transaction = Notation.object(entry);
            aborted.add(new FetchResponseData.AbortedTransaction()
                .setProducerId(Notation.int64(transaction, "producerId"))
                .setFirstOffset(Notation.int64(transaction, "firstOffset")));
        }
        return aborted;
    }

    private static IsolationLevel isolation(String name) {
        for (IsolationLevel level : IsolationLevel.values())
            if (level.toString().equalsIgnoreCase(name))
                return level;
        throw Unsupported.badRequest("no such isolation: " + name);
    }
}
