package org.apache.kafka.clients.consumer.internals;

import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.message.FetchResponseData;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
// these are in `utils` up to Kafka 4.3 and in `utils.internals` from 4.4 on: the wildcards find them in either
import org.apache.kafka.common.utils.*;
import org.apache.kafka.common.utils.internals.*;

/** Builds the parts of a consumer of Kafka 4; the adapter for Kafka 3 has a file of the same name. */
final class ConsumerVersion {

    private ConsumerVersion() {}

    static Deserializers<byte[], byte[]> deserializers(Metrics metrics) {
        return new Deserializers<>(new ByteArrayDeserializer(), new ByteArrayDeserializer(), metrics);
    }

    static SubscriptionState subscriptions(LogContext log) {
        return new SubscriptionState(log, AutoOffsetResetStrategy.NONE);
    }

    static CompletedFetch fetch(LogContext log, SubscriptionState subscriptions, TopicPartition partition,
            FetchResponseData.PartitionData data, FetchMetricsAggregator metrics, long fetchOffset) {
        return new CompletedFetch(log.logger(OpenedFetch.class), subscriptions, BufferSupplier.NO_CACHING, partition,
            data, metrics, fetchOffset);
    }
}
