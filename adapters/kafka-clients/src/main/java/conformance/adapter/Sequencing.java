package conformance.adapter;

import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.InvalidProducerEpochException;
import org.apache.kafka.common.errors.OutOfOrderSequenceException;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.DefaultRecordBatch;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.storage.internals.log.AppendOrigin;
import org.apache.kafka.storage.internals.log.Duplicates;
import org.apache.kafka.storage.internals.log.ProducerAppendInfo;
import org.apache.kafka.storage.internals.log.ProducerStateManager;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;

import java.io.File;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;

/** The operation `sequence`: the results of a broker's producer state for batches of clients. */
final class Sequencing {

    private static final TopicPartition PARTITION = new TopicPartition("topic", 0);
    /** The state is only in memory: its snapshot folder does not exist, and no snapshot is written. */
    private static final File NO_FOLDER = new File("no-such-folder");
    private static final int A_DAY = 86_400_000;

    private Sequencing() {}

    /** Returns a result for each batch; each is a separate append, with the state after the previous ones. */
    static List<String> judge(Map<String, Object> request) {
        List<ByteBuffer> headers = new ArrayList<>();
        long offset = 0;
        for (Object each : Notation.list(Notation.get(request, "batches"))) {
            Map<?, ?> batch = Notation.object(each);
            int recordCount = Notation.int32(batch, "recordCount");
            if (recordCount < 1)
                throw Unsupported.badRequest("a batch has at least one record");
            headers.add(header(batch, offset, recordCount));
            offset += recordCount;
        }
        return Library.call(() -> {
            ProducerStateManager state = new ProducerStateManager(PARTITION, NO_FOLDER, A_DAY,
                new ProducerStateManagerConfig(A_DAY, false), Time.SYSTEM);
            List<String> answers = new ArrayList<>(headers.size());
            for (ByteBuffer header : headers)
                answers.add(append(state, MemoryRecords.readableRecords(header).batches().iterator().next()));
            return answers;
        });
    }

    /** Producer state uses only the header, so no records are built. */
    private static ByteBuffer header(Map<?, ?> batch, long offset, int recordCount) {
        ByteBuffer header = ByteBuffer.allocate(DefaultRecordBatch.RECORD_BATCH_OVERHEAD);
        long producerId = Notation.int64(batch, "producerId");
        short producerEpoch = Notation.int16(batch, "producerEpoch");
        int baseSequence = Notation.int32(batch, "baseSequence");
        return Library.call(() -> {
            DefaultRecordBatch.writeEmptyHeader(header, RecordBatch.MAGIC_VALUE_V2, producerId, producerEpoch,
                baseSequence, offset, offset + recordCount - 1, RecordBatch.NO_PARTITION_LEADER_EPOCH,
                TimestampType.CREATE_TIME, 0, false, false);
            return header.flip();
        });
    }

    /** Checks in the order of a log's append: duplicates first, then sequence and epoch, then the update. */
    private static String append(ProducerStateManager state, RecordBatch batch) {
        if (!batch.hasProducerId())
            return "accept";
        var entry = state.lastEntry(batch.producerId());
        if (entry.isPresent() && Duplicates.contain(entry.get(), batch))
            return "duplicate";
        ProducerAppendInfo update = state.prepareUpdate(batch.producerId(), AppendOrigin.CLIENT);
        try {
            update.append(batch, Optional.empty());
        } catch (OutOfOrderSequenceException e) {
            return "out-of-order";
        } catch (InvalidProducerEpochException e) {
            return "fenced";
        }
        state.update(update);
        return "accept";
    }
}
