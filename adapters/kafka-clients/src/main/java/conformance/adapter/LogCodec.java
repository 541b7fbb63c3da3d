package conformance.adapter;

import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.RecordBatch;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** LOG: batches and messages of any magic one after another, and a cut one at the end. */
final class LogCodec implements Codec {

    private record Log(List<BatchReader.Entry> batches, int partial) {}

    @Override
    public Doors doors() {
        return new Doors("internal: KafkaConsumer.poll > CompletedFetch > MemoryRecords.batches", null, null);
    }

    @Override
    public Decoded decode(ByteBuffer bytes) {
        Log log = Library.call(() -> {
            MemoryRecords records = MemoryRecords.readableRecords(bytes);
            List<BatchReader.Entry> batches = new ArrayList<>();
            for (RecordBatch batch : records.batches())
                batches.add(BatchReader.readAny(batch));
            return new Log(batches, records.sizeInBytes() - records.validBytes());
        });
        Map<String, Object> shown = new LinkedHashMap<>();
        shown.put("batches", log.batches.stream().map(BatchReader.Entry::showInLog).toList());
        shown.put("partial", log.partial);
        return new Decoded(shown, null);
    }

    @Override
    public ByteBuffer encode(Object value, Map<?, ?> request) {
        throw new Unsupported("a log is not encoded as a whole");
    }

    @Override
    public int size(Object value, Map<?, ?> request) {
        throw new Unsupported("a log is not sized as a whole");
    }
}
