package org.apache.kafka.clients.consumer.internals;

import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.IsolationLevel;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.message.FetchResponseData;
import org.apache.kafka.common.metrics.Metrics;
// LogContext is in `utils` up to Kafka 4.3 and in `utils.internals` from 4.4 on: the wildcards find it in either
import org.apache.kafka.common.utils.*;
import org.apache.kafka.common.utils.internals.*;

import java.util.List;
import java.util.Set;

/**
 * A fetched partition, read by the consumer's own class. That class is package-private, so this one is in the same
 * package.
 */
public final class OpenedFetch {

    private static final TopicPartition PARTITION = new TopicPartition("topic", 0);
    /** The consumer's default for max.poll.records. */
    private static final int AT_ONCE = 500;

    private static final LogContext LOG_CONTEXT = new LogContext();
    private static final Metrics METRICS = new Metrics();
    private static final FetchMetricsManager FETCH_METRICS =
        new FetchMetricsManager(METRICS, new FetchMetricsRegistry());
    private static final Deserializers<byte[], byte[]> DESERIALIZERS =
        ConsumerVersion.deserializers(METRICS);

    private final FetchConfig config;
    private final CompletedFetch fetch;

    public OpenedFetch(FetchResponseData.PartitionData data, long fetchOffset, IsolationLevel isolation,
            boolean checkCrcs) {
        SubscriptionState subscriptions = ConsumerVersion.subscriptions(LOG_CONTEXT);
        subscriptions.assignFromUser(Set.of(PARTITION));
        subscriptions.seek(PARTITION, fetchOffset);
        config = new FetchConfig(1, Integer.MAX_VALUE, 0, Integer.MAX_VALUE, AT_ONCE, checkCrcs, "", isolation);
        fetch = ConsumerVersion.fetch(LOG_CONTEXT, subscriptions, PARTITION, data,
            new FetchMetricsAggregator(FETCH_METRICS, Set.of(PARTITION)), fetchOffset);
    }

    /** Returns the next records for the application, or an empty list at the end. Throws like `poll`. */
    public List<ConsumerRecord<byte[], byte[]>> next() {
        return fetch.fetchRecords(config, DESERIALIZERS, AT_ONCE);
    }

    /** Returns the current offset of the next fetch. */
    public long nextOffset() {
        return fetch.nextFetchOffset();
    }
}
