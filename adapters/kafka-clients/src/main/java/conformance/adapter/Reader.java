package conformance.adapter;

import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/** KafkaConsumer as an application uses it, one for each topic: assign and seek, or subscribe and commit; poll. */
final class Reader {

    private static final byte[] END = "conformance.end".getBytes(StandardCharsets.UTF_8);

    private Reader() {}

    static void read(Map<String, Object> task) {
        boolean inGroup = task.containsKey("group");
        Map<String, Object> settings = new HashMap<>(Map.of(
            ConsumerConfig.BOOTSTRAP_SERVERS_CONFIG, task.get("bootstrap"),
            ConsumerConfig.ISOLATION_LEVEL_CONFIG, task.get("isolation"),
            "client.rack", "rack",
            ConsumerConfig.AUTO_OFFSET_RESET_CONFIG, inGroup ? "earliest" : "none"));
        if (inGroup)
            settings.putAll(Map.of(
                ConsumerConfig.GROUP_ID_CONFIG, task.get("topic"),
                ConsumerConfig.ENABLE_AUTO_COMMIT_CONFIG, false,
                ConsumerConfig.HEARTBEAT_INTERVAL_MS_CONFIG, 100));
        TopicPartition partition = new TopicPartition((String) task.get("topic"), (Integer) task.get("partition"));
        try (var consumer = new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            if (inGroup) {
                consumer.subscribe(List.of(partition.topic()));
            } else {
                consumer.assign(List.of(partition));
                consumer.seek(partition, Long.parseLong((String) task.get("offset")));
            }
            while (true) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(200))) {
                    Output.writeLine(Map.of("topic", task.get("topic"), "record", Reading.show(record)));
                    if (Arrays.equals(record.key(), END))
                        return;
                    if (inGroup)
                        consumer.commitSync();
                }
            }
        }
    }
}
