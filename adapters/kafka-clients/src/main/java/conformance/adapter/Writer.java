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

    static void write(Map<String, Object> task) throws Throwable {
        Map<?, ?> options = Notation.object(task.get("produce"));
        try (var producer = new KafkaProducer<>(settings(task, options), new ByteArraySerializer(), new ByteArraySerializer())) {
            if ((Boolean) options.get("transactional")) producer.initTransactions();
            Object end = (Boolean) options.get("transactional") ? "commit" : "";
            List<?> batches = Notation.list(options.get("batches"));
            var all = batches.stream().flatMap(rows -> Notation.list(rows).stream()).toList();
            var ends = Notation.list(options.get("ends")).iterator();
            var givenUp = Notation.list(options.get("givenUp")).iterator();
            for (Object batch : (Boolean) options.get("together") ? List.of(all) : batches) {
                if (!end.equals(""))
                    producer.beginTransaction();
                var sent = Notation.list(batch).stream().map(row -> producer.send(record(task, row))).toList();
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

    private static Map<String, Object> settings(Map<String, Object> task, Map<?, ?> options) {
        Map<String, Object> settings = new HashMap<>(Map.of(
            ProducerConfig.BOOTSTRAP_SERVERS_CONFIG, task.get("bootstrap"), ProducerConfig.CLIENT_ID_CONFIG, task.get("topic"),
            ProducerConfig.COMPRESSION_TYPE_CONFIG, options.get("compression"), ProducerConfig.LINGER_MS_CONFIG, 1000,
            ProducerConfig.ENABLE_IDEMPOTENCE_CONFIG, options.get("idempotent"), ProducerConfig.BATCH_SIZE_CONFIG,
            options.get("batchBytes"), ProducerConfig.MAX_REQUEST_SIZE_CONFIG, options.get("batchBytes")));
        if ((Boolean) options.get("transactional"))
            settings.put(ProducerConfig.TRANSACTIONAL_ID_CONFIG, task.get("topic"));
        return settings;
    }

    private static ProducerRecord<byte[], byte[]> record(Map<String, Object> task, Object element) {
        Map<?, ?> row = Notation.object(element);
        return new ProducerRecord<>((String) task.get("topic"), (Integer) task.get("partition"),
            Notation.int64(row, "timestamp"), Notation.array(row.get("key")), Notation.array(row.get("value")),
            List.of(RecordParts.headers(row)));
    }
}
