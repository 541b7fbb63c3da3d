package conformance.adapter;

import org.apache.kafka.common.record.internal.CompressionType;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.storage.internals.log.RecordValidationException;

import java.nio.ByteBuffer;
import java.util.Map;

/** The operation `convert`: down like a broker for old consumers, up like a broker on append. */
final class Conversion {

    private Conversion() {}

    /** Returns the bytes of the converted log. */
    static ByteBuffer convert(Map<String, Object> request) {
        ByteBuffer bytes = Notation.bytes(Notation.get(request, "hex"));
        if (bytes == null)
            throw Unsupported.badRequest("hex is null");
        long magic = Notation.int64(request, "magic");
        boolean isUp = magic == RecordBatch.MAGIC_VALUE_V2;
        if (!KafkaVersion.CONVERTS_TO.contains((int) magic))
            throw new Unsupported("this version converts to magic " + KafkaVersion.CONVERTS_TO + " only");
        if (!isUp)
            return Library.call(() -> KafkaVersion.downConvert(MemoryRecords.readableRecords(bytes), (byte) magic));
        if (request.get("baseOffset") == null)
            throw new Unsupported("Kafka converts up on append only, which gives the records new offsets");
        long baseOffset = Notation.int64(request, "baseOffset");
        return Library.call(() -> {
            MemoryRecords records = MemoryRecords.readableRecords(bytes);
            try {
                return KafkaVersion.upConvert(records, compression(records), baseOffset);
            } catch (RecordValidationException e) {
                throw e.invalidException(); // the client gets this exception
            }
        });
    }

    /** Returns the codec of the last compressed batch, like a log's append, which also checks each batch there. */
    private static CompressionType compression(MemoryRecords records) {
        CompressionType compression = CompressionType.NONE;
        for (RecordBatch batch : records.batches()) {
            batch.ensureValid();
            if (batch.compressionType() != CompressionType.NONE)
                compression = batch.compressionType();
        }
        return compression;
    }
}
