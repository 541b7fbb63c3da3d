package conformance.adapter;

import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;

import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutionException;

/** KafkaProducer as an application uses it, a new one for each topic: send, flush after each batch or after all. */
final class Writer {

    static void write(Map<String, Object> told) throws Throwable {
        Map<?, ?> asked = Notation.object(told.get("produce"));
        try (var producer = new KafkaProducer<>(settings(told, asked), new ByteArraySerializer(), new ByteArraySerializer())) {
            if ((Boolean) asked.get("transactional")) producer.initTransactions();
            Object end = (Boolean) asked.get("transactional") ? "commit" : "";
            List<?> apart = Notation.list(asked.get("batches"));
            var all = apart.stream().flatMap(rows -> Notation.list(rows).stream()).toList();
            var ends = Notation.list(asked.get("ends")).iterator();
            var givenUp = Notation.list(asked.get("givenUp")).iterator();
            for (Object batch : (Boolean) asked.get("together") ? List.of(all) : apart) {
                if (!end.equals(""))
                    producer.beginTransaction();
                var sent = Notation.list(batch).stream().map(row -> producer.send(record(told, row))).toList();
                producer.flush();
                end = ends.next();
                for (var one : (Boolean) givenUp.next() ? sent.subList(0, 0) : sent)
                    one.get();
                if (end.equals("commit"))
                    producer.commitTransaction();
                else if (end.equals("abort"))
                    producer.abortTransaction();
            }
        } catch (ExecutionException e) {
            throw e.getCause();
        }
    }

    private static Map<String, Object> settings(Map<String, Object> told, Map<?, ?> asked) {
        Map<String, Object> settings = new HashMap<>(Map.of(
            ProducerConfig.BOOTSTRAP_SERVERS_CONFIG, told.get("bootstrap"), ProducerConfig.CLIENT_ID_CONFIG, told.get("topic"),
            ProducerConfig.COMPRESSION_TYPE_CONFIG, asked.get("compression"), ProducerConfig.LINGER_MS_CONFIG, 1000,
            ProducerConfig.ENABLE_IDEMPOTENCE_CONFIG, asked.get("idempotent"), ProducerConfig.BATCH_SIZE_CONFIG,
            asked.get("batchBytes"), ProducerConfig.MAX_REQUEST_SIZE_CONFIG, asked.get("batchBytes")));
        if ((Boolean) asked.get("transactional"))
            settings.put(ProducerConfig.TRANSACTIONAL_ID_CONFIG, told.get("topic"));
        return settings;
    }

    private static ProducerRecord<byte[], byte[]> record(Map<String, Object> told, Object given) {
        Map<?, ?> row = Notation.object(given);
        return new ProducerRecord<>((String) told.get("topic"), (Integer) told.get("partition"),
            Notation.int64(row, "timestamp"), Notation.array(row.get("key")), Notation.array(row.get("value")),
            List.of(RecordParts.headers(row)));
    }
}
