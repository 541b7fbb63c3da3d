package conformance.adapter;

import com.fasterxml.jackson.jr.ob.JSON;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
// AppInfoParser is in `utils` up to Kafka 4.3 and in `utils.internals` from 4.4 on: the wildcards find it in either
import org.apache.kafka.common.utils.*;
import org.apache.kafka.common.utils.internals.*;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;

/** KafkaConsumer as an application uses it (assign, seek, poll), a fresh one for each topic that the suite names. */
public final class Driver {

    private static final byte[] END = "conformance.end".getBytes(StandardCharsets.UTF_8);
    private static final PrintStream OUT = new PrintStream(System.out, true, StandardCharsets.UTF_8);
    private static final JSON TEXT = JSON.std.with(JSON.Feature.WRITE_NULL_PROPERTIES);

    public static void main(String[] args) throws IOException {
        System.setOut(System.err);
        ExecutorService pool = Executors.newFixedThreadPool(Integer.parseInt(args[0]), Driver::thread);
        say(Map.of("version", AppInfoParser.getVersion()));
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            Map<String, Object> told = JSON.std.mapFrom(line);
            pool.submit(() -> answer(told));
        }
    }

    private static Thread thread(Runnable work) {
        Thread thread = new Thread(work);
        thread.setDaemon(true);
        return thread;
    }

    private static void answer(Map<String, Object> told) {
        Map<String, Object> last = new LinkedHashMap<>(Map.of("topic", told.get("topic")));
        try {
            if (told.containsKey("produce"))
                Writer.write(told);
            else
                consume(told);
            last.put("end", true);
        } catch (Throwable e) {
            if (Library.isRefusal(e)) {
                last.put("error", Library.errorClass(e, "read"));
                last.put("message", String.valueOf(e));
            } else {
                last.put("crash", String.valueOf(e));
            }
        }
        say(last);
    }

    private static void consume(Map<String, Object> told) {
        Map<String, Object> settings = new HashMap<>();
        settings.put(ConsumerConfig.BOOTSTRAP_SERVERS_CONFIG, told.get("bootstrap"));
        settings.put(ConsumerConfig.ISOLATION_LEVEL_CONFIG, told.get("isolation"));
        settings.put(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG, "none");
        TopicPartition partition = new TopicPartition((String) told.get("topic"), (Integer) told.get("partition"));
        try (var consumer = new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            consumer.assign(List.of(partition));
            consumer.seek(partition, Long.parseLong((String) told.get("offset")));
            while (true) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(200))) {
                    say(Map.of("topic", told.get("topic"), "record", shown(record)));
                    if (Arrays.equals(record.key(), END))
                        return;
                }
            }
        }
    }

    private static Map<String, Object> shown(ConsumerRecord<byte[], byte[]> record) {
        Map<String, Object> shown = new LinkedHashMap<>();
        shown.put("offset", String.valueOf(record.offset()));
        shown.put("timestamp", String.valueOf(record.timestamp()));
        shown.put("timestampType", record.timestampType().toString());
        shown.put("key", hex(record.key()));
        shown.put("value", hex(record.value()));
        List<Map<String, Object>> headers = new ArrayList<>();
        for (Header header : record.headers()) {
            Map<String, Object> row = new LinkedHashMap<>();
            row.put("key", header.key());
            row.put("value", hex(header.value()));
            headers.add(row);
        }
        shown.put("headers", headers);
        return shown;
    }

    private static String hex(byte[] bytes) {
        return bytes == null ? null : HexFormat.of().formatHex(bytes);
    }

    private static void say(Map<String, Object> told) {
        try {
            String line = TEXT.asString(told);
            synchronized (OUT) {
                OUT.println(line);
            }
        } catch (IOException e) {
            throw new IllegalStateException(e);
        }
    }
}
