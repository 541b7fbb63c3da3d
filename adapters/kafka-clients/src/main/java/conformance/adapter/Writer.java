package conformance.adapter;

import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.serialization.ByteArraySerializer;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;

/** KafkaProducer as an application uses it, a fresh one for each topic: send, flush after each batch. */
final class Writer {

    private static final int MUCH = 4 << 20;

    @SuppressWarnings("unchecked")
    static void write(Map<String, Object> told) throws Throwable {
        String topic = (String) told.get("topic");
        Map<String, Object> asked = (Map<String, Object>) told.get("produce");
        boolean transactional = (Boolean) asked.get("transactional");
        try (var producer = new KafkaProducer<>(settings(told, asked), new ByteArraySerializer(), new ByteArraySerializer())) {
            if (transactional) {
                producer.initTransactions();
                producer.beginTransaction();
            }
            for (List<Map<String, Object>> batch : (List<List<Map<String, Object>>>) asked.get("batches")) {
                List<Future<RecordMetadata>> sent = new ArrayList<>();
                for (Map<String, Object> row : batch)
                    sent.add(producer.send(record(topic, (Integer) told.get("partition"), row)));
                producer.flush();
                for (Future<RecordMetadata> one : sent)
                    one.get();
            }
            if (transactional)
                producer.commitTransaction();
        } catch (ExecutionException e) {
            throw e.getCause();
        }
    }

    private static Map<String, Object> settings(Map<String, Object> told, Map<String, Object> asked) {
        Map<String, Object> settings = new HashMap<>();
        settings.put(ProducerConfig.BOOTSTRAP_SERVERS_CONFIG, told.get("bootstrap"));
        settings.put(ProducerConfig.CLIENT_ID_CONFIG, told.get("topic"));
        settings.put(ProducerConfig.COMPRESSION_TYPE_CONFIG, asked.get("compression"));
        settings.put(ProducerConfig.ENABLE_IDEMPOTENCE_CONFIG, asked.get("idempotent"));
        settings.put(ProducerConfig.LINGER_MS_CONFIG, 1000);
        settings.put(ProducerConfig.BATCH_SIZE_CONFIG, MUCH);
        settings.put(ProducerConfig.MAX_REQUEST_SIZE_CONFIG, MUCH);
        if ((Boolean) asked.get("transactional"))
            settings.put(ProducerConfig.TRANSACTIONAL_ID_CONFIG, told.get("topic"));
        return settings;
    }

    @SuppressWarnings("unchecked")
    private static ProducerRecord<byte[], byte[]> record(String topic, int partition, Map<String, Object> row) {
        RecordHeaders headers = new RecordHeaders();
        for (Map<String, Object> header : (List<Map<String, Object>>) row.get("headers"))
            headers.add((String) header.get("key"), bytes(header.get("value")));
        Long timestamp = Long.parseLong((String) row.get("timestamp"));
        return new ProducerRecord<>(topic, partition, timestamp, bytes(row.get("key")), bytes(row.get("value")), headers);
    }

    private static byte[] bytes(Object hex) {
        return hex == null ? null : HexFormat.of().parseHex((String) hex);
    }
}
