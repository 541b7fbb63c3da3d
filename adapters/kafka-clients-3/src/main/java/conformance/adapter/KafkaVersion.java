package conformance.adapter;

import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.protocol.types.Struct;
import org.apache.kafka.common.protocol.types.Type;
import org.apache.kafka.common.record.CompressionType;
import org.apache.kafka.common.record.ControlRecordType;
import org.apache.kafka.common.record.MemoryRecords;
import org.apache.kafka.common.record.RecordBatch;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.utils.BufferSupplier;
import org.apache.kafka.common.utils.PrimitiveRef;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.common.MetadataVersion;
import org.apache.kafka.storage.internals.log.AppendOrigin;
import org.apache.kafka.storage.internals.log.LogValidator;

import java.nio.ByteBuffer;
import java.util.List;

/** The differences of Kafka 3 from Kafka 4. */
final class KafkaVersion {

    /** The magics that `convert` can write. */
    static final List<Integer> CONVERTS_TO = List.of((int) RecordBatch.MAGIC_VALUE_V0, (int) RecordBatch.MAGIC_VALUE_V1,
        (int) RecordBatch.MAGIC_VALUE_V2);

    static final String CONVERTS_BY = "internal: Sender > MemoryRecords.downConvert; a broker's append > LogValidator";

    private KafkaVersion() {}

    /** No message has one, but a broker's snapshots of producers do. */
    static Codec uint32() {
        String snapshot = "internal: ProducerStateManager > Struct > Type.UNSIGNED_INT32.";
        Codec.Doors doors = new Codec.Doors(snapshot + "read", snapshot + "write", snapshot + "sizeOf");
        return new NumberCodec<>(doors, value -> Integer.toUnsignedLong(NumberCodec.unsignedBits(value)),
            Type.UNSIGNED_INT32::read, (number, out) -> {
                ByteBuffer buffer = ByteBuffer.allocate(Integer.BYTES);
                Type.UNSIGNED_INT32.write(buffer, number);
                out.write(buffer.array());
            }, Type.UNSIGNED_INT32::sizeOf);
    }

    static ByteBuffer controlKey(ControlRecordType type) {
        Struct key = type.recordKey();
        ByteBuffer bytes = ByteBuffer.allocate(key.sizeOf());
        key.writeTo(bytes);
        return bytes.flip();
    }

    static int controlKeySize(ControlRecordType type) {
        return type.recordKey().sizeOf();
    }

    /** Converts like a broker for a fetch of an old consumer, from the first offset. */
    static ByteBuffer downConvert(MemoryRecords records, byte magic) {
        return records.downConvert(magic, 0, Time.SYSTEM).records().buffer();
    }

    /** Converts like an append of a produce request with default settings, at this log end. */
    static ByteBuffer upConvert(MemoryRecords records, CompressionType compression, long baseOffset) {
        LogValidator validator = new LogValidator(records, new TopicPartition("topic", 0), Time.SYSTEM, compression,
            Compression.of(compression).build(), false, RecordBatch.MAGIC_VALUE_V2, TimestampType.CREATE_TIME,
            Long.MAX_VALUE, Long.MAX_VALUE, RecordBatch.NO_PARTITION_LEADER_EPOCH, AppendOrigin.CLIENT,
            MetadataVersion.LATEST_PRODUCTION);
        return validator.validateMessagesAndAssignOffsets(PrimitiveRef.ofLong(baseOffset), NotRecorded.METRICS,
            BufferSupplier.NO_CACHING).validatedRecords.buffer();
    }
}
