import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.stream.Collectors;
import kafka.server.KafkaConfig;
import kafka.server.KafkaRaftServer;
import kafka.tools.StorageTool;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.utils.Time;

/**
 * Starts one broker on 127.0.0.1 with its logs in the given folder, writes every kind of segment, and stops it.
 *
 * Segments roll by time: the timestamps of records differ by a minute, topics roll after a second.
 */
public final class WriteLogs {
    private static final long START = 1_700_000_000_000L;
    private static final List<String> CODECS = List.of("none", "gzip", "snappy", "lz4", "zstd");
    private static final Map<String, String> ROLLING =
        Map.of("segment.ms", "1000", "segment.jitter.ms", "0", "retention.ms", "-1", "index.interval.bytes", "200");

    private WriteLogs() { }

    /** The folder of the logs, the port of the broker, the port of its controller. */
    public static void main(String[] arguments) throws Exception {
        Path logs = Path.of(arguments[0]).toAbsolutePath();
        String port = arguments[1];
        Path file = Files.createTempFile("broker", ".properties");
        Properties settings = settings(logs, port, arguments[2]);
        try (var out = Files.newBufferedWriter(file)) {
            settings.store(out, null);
        }
        String[] format = {"format", "-t", Uuid.randomUuid().toString(), "-c", file.toString()};
        if (StorageTool.execute(format, new PrintStream(PrintStream.nullOutputStream())) != 0) {
            throw new IllegalStateException("the folder could not be formatted");
        }
        Files.delete(file);
        KafkaRaftServer server = new KafkaRaftServer(KafkaConfig.fromProps(settings), Time.SYSTEM);
        server.startup();
        try {
            write("127.0.0.1:" + port, logs);
        } finally {
            server.shutdown();
            server.awaitShutdown();
        }
    }

    private static Properties settings(Path logs, String port, String controller) {
        Properties found = new Properties();
        found.putAll(Map.of(
            "process.roles", "broker,controller",
            "node.id", "1",
            "controller.quorum.voters", "1@127.0.0.1:" + controller,
            "listeners", "PLAINTEXT://127.0.0.1:" + port + ",CONTROLLER://127.0.0.1:" + controller,
            "advertised.listeners", "PLAINTEXT://127.0.0.1:" + port,
            "controller.listener.names", "CONTROLLER",
            "log.dirs", logs.toString()));
        found.putAll(Map.of(
            "offsets.topic.num.partitions", "1",
            "offsets.topic.replication.factor", "1",
            "transaction.state.log.num.partitions", "1",
            "transaction.state.log.replication.factor", "1",
            "transaction.state.log.min.isr", "1",
            "share.coordinator.state.topic.replication.factor", "1",
            "share.coordinator.state.topic.min.isr", "1",
            "log.cleaner.backoff.ms", "200",
            "log.cleaner.dedupe.buffer.size", "10485760",
            "group.initial.rebalance.delay.ms", "0"));
        return found;
    }

    private static void write(String server, Path logs) throws Exception {
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", server))) {
            List<NewTopic> topics = new ArrayList<>();
            for (String codec : CODECS) {
                topics.add(topic("plain-" + codec, Map.of()));
            }
            topics.add(topic("append-time", Map.of("message.timestamp.type", "LogAppendTime", "segment.ms", "200")));
            topics.add(topic("transactions", Map.of()));
            topics.add(topic("compacted", compaction()));
            topics.add(topic("compacted-transactions", compaction()));
            topics.add(topic("recompressed", Map.of("compression.type", "zstd")));
            admin.createTopics(topics).all().get();
        }
        for (String codec : CODECS) {
            plain(server, "plain-" + codec, codec);
        }
        plain(server, "recompressed", "gzip");
        appendTime(server);
        transactions(server);
        compacted(server);
        compactedTransactions(server);
        consume(server);
        awaitCompaction(logs);
    }

    private static NewTopic topic(String name, Map<String, String> further) {
        Map<String, String> settings = new java.util.HashMap<>(ROLLING);
        settings.putAll(further);
        return new NewTopic(name, 1, (short) 1).configs(settings);
    }

    private static Map<String, String> compaction() {
        return Map.of("cleanup.policy", "compact", "min.cleanable.dirty.ratio", "0.01", "delete.retention.ms", "1");
    }

    private static KafkaProducer<byte[], byte[]> producer(String server, Map<String, String> further) {
        Properties settings = new Properties();
        settings.putAll(Map.of("bootstrap.servers", server, "linger.ms", "100", "batch.size", "4000"));
        settings.putAll(further);
        return new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer());
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    private static ProducerRecord<byte[], byte[]> record(String topic, int index, byte[] key, byte[] value) {
        var found = new ProducerRecord<byte[], byte[]>(topic, null, START + index, key, value);
        for (int number = 0; number < index % 3; number++) {
            found.headers().add(new RecordHeader("header-\u00e9-" + number, number == 0 ? null : bytes("v" + index)));
        }
        return found;
    }

    /** Writes several segments of several batches with an idempotent producer, the default. */
    private static void plain(String server, String topic, String codec) throws Exception {
        try (var producer = producer(server, Map.of("compression.type", codec))) {
            for (int segment = 0; segment < 4; segment++) {
                for (int index = 0; index < 300; index++) {
                    byte[] key = index % 7 == 0 ? null : bytes("key-" + index % 40);
                    byte[] value = index % 11 == 0 ? null : bytes(("value " + index + " ").repeat(1 + index % 9));
                    producer.send(record(topic, segment * 60_000 + (index * 37) % 300, key, value));
                }
                producer.flush();
            }
        }
        try (var producer = producer(server, Map.of("compression.type", codec, "enable.idempotence", "false"))) {
            for (int index = 0; index < 50; index++) {
                producer.send(record(topic, 300_000 + index, bytes("k"), new byte[0]));
            }
        }
    }

    private static void appendTime(String server) throws Exception {
        try (var producer = producer(server, Map.of("compression.type", "lz4"))) {
            for (int round = 0; round < 4; round++) {
                for (int index = 0; index < 100; index++) {
                    producer.send(record("append-time", index, bytes("k" + index), bytes("value " + index)));
                }
                producer.flush();
                Thread.sleep(250);
            }
        }
    }

    /** Writes with two producers in turn: some transactions are aborted, some span segments, one is empty. */
    private static void transactions(String server) throws Exception {
        try (var one = producer(server, Map.of("transactional.id", "one", "compression.type", "snappy"));
                var other = producer(server, Map.of("transactional.id", "other"));
                var loose = producer(server, Map.of("linger.ms", "0"))) {
            one.initTransactions();
            other.initTransactions();
            for (int round = 0; round < 9; round++) {
                one.beginTransaction();
                other.beginTransaction();
                for (int index = 0; index < 20; index++) {
                    int at = round * 20_000 + index * 500;
                    one.send(record("transactions", at, bytes("one"), bytes("a".repeat(200))));
                    other.send(record("transactions", at, bytes("other"), bytes("b")));
                    if (index % 6 == 0) {
                        one.flush();
                        other.flush();
                        loose.send(record("transactions", at, bytes("loose"), bytes("c"))).get();
                    }
                }
                if (round % 3 == 0) {
                    one.abortTransaction();
                } else {
                    one.commitTransaction();
                }
                if (round % 2 == 0) {
                    other.commitTransaction();
                } else {
                    other.abortTransaction();
                }
            }
        }
        try (var again = producer(server, Map.of("transactional.id", "one"))) {
            again.initTransactions();
            again.beginTransaction();
            again.send(record("transactions", 400_000, bytes("one"), bytes("left open"))).get();
        }
    }

    /** Writes repeated keys and tombstones, so that compaction removes whole batches and parts of batches. */
    private static void compacted(String server) throws Exception {
        for (String codec : CODECS) {
            try (var producer = producer(server, Map.of("compression.type", codec, "batch.size", "600"))) {
                for (int round = 0; round < 6; round++) {
                    for (int index = 0; index < 60; index++) {
                        byte[] key = bytes("key-" + (index * 7 + round) % 25);
                        byte[] value = index % 9 == 0 ? null : bytes("value " + round + " " + index);
                        producer.send(record("compacted", round * 5_000 + index, key, value));
                    }
                    producer.send(record("compacted", round * 5_000 + 90, bytes(codec + round), bytes("stays")));
                    producer.flush();
                }
            }
        }
        roll(server, "compacted");
    }

    private static void compactedTransactions(String server) throws Exception {
        try (var producer = producer(server, Map.of("transactional.id", "third"))) {
            producer.initTransactions();
            for (int round = 0; round < 8; round++) {
                producer.beginTransaction();
                for (int index = 0; index < 30; index++) {
                    byte[] key = bytes("key-" + (index + round) % 40);
                    producer.send(record("compacted-transactions", round * 5_000 + index, key, bytes("v" + round)));
                }
                if (round % 3 == 1) {
                    producer.abortTransaction();
                } else {
                    producer.commitTransaction();
                }
            }
        }
        roll(server, "compacted-transactions");
    }

    /** Rolls the last segment with records, so that the cleaner may compact it. */
    private static void roll(String server, String topic) throws Exception {
        try (var producer = producer(server, Map.of("linger.ms", "0"))) {
            for (int index = 0; index < 3; index++) {
                producer.send(record(topic, 900_000 + index * 60_000, bytes("roll"), bytes("r" + index))).get();
            }
        }
    }

    private static void consume(String server) {
        Map<String, Object> settings = Map.of(
            "bootstrap.servers", server, "group.id", "readers", "auto.offset.reset", "earliest");
        var read = new ByteArrayDeserializer();
        try (var consumer = new KafkaConsumer<byte[], byte[]>(settings, read, read)) {
            consumer.subscribe(List.of("plain-none", "transactions"));
            for (int round = 0; round < 4; round++) {
                consumer.poll(Duration.ofSeconds(1));
                consumer.commitSync();
            }
        }
    }

    /** Waits until the cleaner has not changed both compacted logs for a second. */
    private static void awaitCompaction(Path logs) throws Exception {
        String before = "";
        long end = System.currentTimeMillis() + 60_000;
        for (int calm = 0; calm < 5 && System.currentTimeMillis() < end; ) {
            Thread.sleep(300);
            String now = sizes(logs.resolve("compacted-0")) + sizes(logs.resolve("compacted-transactions-0"));
            boolean cleaned = Files.exists(logs.resolve("cleaner-offset-checkpoint"));
            calm = cleaned && now.equals(before) ? calm + 1 : 0;
            before = now;
        }
    }

    private static String sizes(Path folder) throws Exception {
        try (var files = Files.list(folder)) {
            return files.filter(file -> file.toString().endsWith(".log")).sorted()
                .map(Path::toFile).map(file -> file.getName() + file.length()).collect(Collectors.joining(" "));
        }
    }
}
