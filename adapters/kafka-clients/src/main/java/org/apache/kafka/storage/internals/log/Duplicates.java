package org.apache.kafka.storage.internals.log;

import org.apache.kafka.common.record.internal.RecordBatch;

/** Asks what is open to this package only. */
public final class Duplicates {

    private Duplicates() {}

    /** Whether the batch repeats one that the producer's entry remembers. */
    public static boolean contain(ProducerStateEntry entry, RecordBatch batch) {
        return entry.findDuplicateBatch(batch).isPresent();
    }
}
