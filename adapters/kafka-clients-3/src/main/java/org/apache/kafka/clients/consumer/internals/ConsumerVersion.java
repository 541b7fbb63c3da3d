package org.apache.kafka.clients.consumer.internals;

import org.apache.kafka.clients.consumer.OffsetResetStrategy;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.message.FetchResponseData;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.utils.BufferSupplier;
import org.apache.kafka.common.utils.LogContext;

/** Builds the parts of a consumer of Kafka 3. */
final class ConsumerVersion {

    private ConsumerVersion() {}

    static Deserializers<byte[], byte[]> deserializers(Metrics metrics) {
        return new Deserializers<>(new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    static SubscriptionState subscriptions(LogContext log) {
        return new SubscriptionState(log, OffsetResetStrategy.NONE);
    }

    static CompletedFetch fetch(LogContext log, SubscriptionState subscriptions, TopicPartition partition,
            FetchResponseData.PartitionData data, FetchMetricsAggregator metrics, long fetchOffset) {
        return new CompletedFetch(log.logger(OpenedFetch.class), subscriptions, BufferSupplier.NO_CACHING, partition,
            data, metrics, fetchOffset, ApiKeys.FETCH.latestVersion());
    }
}
