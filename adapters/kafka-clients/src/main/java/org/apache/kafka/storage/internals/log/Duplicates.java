package org.apache.kafka.storage.internals.log;

import org.apache.kafka.common.record.internal.RecordBatch;

/** Calls a package-private method. */
public final class Duplicates {

    private Duplicates() {}

    /** Returns true if the batch repeats one in the producer's entry. */
    public static boolean contain(ProducerStateEntry entry, RecordBatch batch) {
        return entry.findDuplicateBatch(batch).isPresent();
    }
}
