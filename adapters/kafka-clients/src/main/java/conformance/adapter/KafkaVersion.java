package conformance.adapter;

import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.CompressionType;
import org.apache.kafka.common.record.internal.ControlRecordType;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.RecordBatch;
// these are in `utils` up to Kafka 4.3 and in `utils.internals` from 4.4 on: the wildcards find them in either
import org.apache.kafka.common.utils.*;
import org.apache.kafka.common.utils.internals.*;
import org.apache.kafka.storage.internals.log.AppendOrigin;
import org.apache.kafka.storage.internals.log.LogValidator;

import java.nio.ByteBuffer;
import java.util.List;

/** The differences of Kafka 4 from Kafka 3, whose adapter has a file of the same name. */
final class KafkaVersion {

    /** The magics that `convert` can write. */
    static final List<Integer> CONVERTS_TO = List.of((int) RecordBatch.MAGIC_VALUE_V2);

    static final String CONVERTS_BY = "internal: a broker's append > LogValidator";

    private KafkaVersion() {}

    /** No message has one, but a broker's snapshots of producers do. */
    static Codec uint32() {
        String snapshot = "internal: ProducerStateManager > ProducerSnapshot > ByteBufferAccessor.";
        Codec.Doors doors = new Codec.Doors(snapshot + "readUnsignedInt", snapshot + "writeUnsignedInt", null);
        return new NumberCodec<>(doors, value -> Integer.toUnsignedLong(NumberCodec.unsignedBits(value)),
            bytes -> new ByteBufferAccessor(bytes).readUnsignedInt(), (number, out) -> {
                ByteBuffer buffer = ByteBuffer.allocate(Integer.BYTES);
                new ByteBufferAccessor(buffer).writeUnsignedInt(number);
                out.write(buffer.array());
            }, number -> {
                throw new Unsupported("no API tells the size of a number");
            });
    }

    static ByteBuffer controlKey(ControlRecordType type) {
        return type.recordKey();
    }

    static int controlKeySize(ControlRecordType type) {
        return type.controlRecordKeySize();
    }

    /** Kafka 4.0 removed it. */
    static ByteBuffer downConvert(MemoryRecords records, byte magic) {
        throw new Unsupported("this version does not convert down");
    }

    /** Converts like an append of a produce request with default settings, at this log end. */
    static ByteBuffer upConvert(MemoryRecords records, CompressionType compression, long baseOffset) {
        LogValidator validator = new LogValidator(records, new TopicPartition("topic", 0), Time.SYSTEM, compression,
            Compression.of(compression).build(), false, RecordBatch.MAGIC_VALUE_V2, TimestampType.CREATE_TIME,
            Long.MAX_VALUE, Long.MAX_VALUE, RecordBatch.NO_PARTITION_LEADER_EPOCH, AppendOrigin.CLIENT);
        return validator.validateMessagesAndAssignOffsets(PrimitiveRef.ofLong(baseOffset), NotRecorded.METRICS,
            BufferSupplier.NO_CACHING).validatedRecords().buffer();
    }
}
