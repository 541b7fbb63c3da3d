package conformance.adapter;

import conformance.adapter.Codec.Doors;
import conformance.adapter.FieldCodec.Place;

// ByteUtils is in `utils` up to Kafka 4.3 and in `utils.internals` from 4.4 on: the wildcards find it in either
import org.apache.kafka.common.utils.*;
import org.apache.kafka.common.utils.internals.*;

import java.nio.ByteBuffer;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** From the protocol's type names to codecs. */
final class Types {

    private static final int LONGEST_VARINT = 5;

    private final Map<String, Codec> codecs = new LinkedHashMap<>();

    /** `versions` are those of the messages of this Kafka: a type that they do not use is not claimed. */
    Types(Messages messages, Map<String, String> versions) {
        places().forEach((type, place) -> {
            String range = versions.getOrDefault(place.message(), "none");
            if (Versions.of(range).has(place.version()))
                codecs.put(type, new FieldCodec(type, place, messages));
        });
        codecs.put("UINT32", KafkaVersion.uint32());
        codecs.put("VARINT", varint());
        codecs.put("VARLONG", varlong());
        codecs.put("UNSIGNED_VARINT", unsignedVarint());
        codecs.put("TAGGED_FIELDS", new TaggedFieldsCodec(messages));
        codecs.put("RECORD", new RecordCodec());
        codecs.put("RECORD_BATCH", new BatchCodec());
        codecs.put("CONTROL_RECORD", new ControlRecordCodec());
        codecs.put("LOG", new LogCodec());
        codecs.put("MESSAGE_SET", new MessageSetCodec());
    }

    /** The field that represents each type. */
    private static Map<String, Place> places() {
        Map<String, Place> places = new LinkedHashMap<>();
        places.put("BOOLEAN", at("MetadataRequest", 4, "AllowAutoTopicCreation", 1, 0));
        places.put("INT8", at("FindCoordinatorRequest", 1, "KeyType", 1, 0));
        places.put("INT16", at("HeartbeatResponse", 0, "ErrorCode", 2, 0));
        places.put("INT32", at("HeartbeatResponse", 1, "ThrottleTimeMs", 4, 2));
        places.put("INT64", at("ListOffsetsRequest/Topics/Partitions", 1, "Timestamp", 8, 0));
        places.put("UINT16", at("DescribeQuorumResponse/Nodes/Listeners", 2, "Port", 2, 1));
        places.put("FLOAT64", at("DescribeClientQuotasResponse/Entries/Values", 0, "Value", 8, 0));
        places.put("UUID", at("DeleteTopicsRequest/Topics", 6, "TopicId", 16, 1));
        places.put("STRING", at("FindCoordinatorRequest", 0, "Key", 2, 0));
        places.put("NULLABLE_STRING", at("LeaveGroupRequest/Members", 3, "GroupInstanceId", 2, 0));
        places.put("COMPACT_STRING", at("MetadataRequest/Topics", 9, "Name", 1, 1));
        places.put("COMPACT_NULLABLE_STRING", at("LeaveGroupRequest/Members", 4, "GroupInstanceId", 1, 1));
        places.put("BYTES", at("SaslAuthenticateRequest", 0, "AuthBytes", 4, 0));
        places.put("NULLABLE_BYTES", at("ConsumerProtocolAssignment", 0, "UserData", 4, 0));
        places.put("COMPACT_BYTES", at("SaslAuthenticateRequest", 2, "AuthBytes", 1, 1));
        places.put("COMPACT_NULLABLE_BYTES", at("EnvelopeResponse", 0, "ResponseData", 1, 3));
        places.put("RECORDS", at("ProduceRequest/TopicData/PartitionData", 8, "Records", 4, 0));
        places.put("COMPACT_RECORDS", at("ProduceRequest/TopicData/PartitionData", 9, "Records", 1, 1));
        places.put("ARRAY<INT32>", at("FetchRequest/ForgottenTopicsData", 7, "Partitions", 4, 0));
        places.put("ARRAY<INT64>", at("ListOffsetsResponse/Topics/Partitions", 0, "OldStyleOffsets", 4, 0));
        places.put("ARRAY<STRING>", at("DescribeGroupsRequest", 0, "Groups", 4, 0));
        places.put("NULLABLE_ARRAY<STRING>", at("DescribeConfigsRequest/Resources", 1, "ConfigurationKeys", 4, 0));
        places.put("COMPACT_ARRAY<INT8>",
            at("GetTelemetrySubscriptionsResponse", 0, "AcceptedCompressionTypes", 1, 11));
        places.put("COMPACT_ARRAY<INT16>",
            at("StreamsGroupHeartbeatRequest/Topology/Subtopologies/CopartitionGroups", 0,
                "RepartitionSourceTopics", 1, 1));
        places.put("COMPACT_ARRAY<INT32>", at("FetchRequest/ForgottenTopicsData", 12, "Partitions", 1, 1));
        places.put("COMPACT_ARRAY<INT64>", at("ListTransactionsRequest", 0, "ProducerIdFilters", 1, 1));
        places.put("COMPACT_ARRAY<UUID>", at("BrokerRegistrationRequest", 2, "LogDirs", 1, 1));
        places.put("COMPACT_ARRAY<COMPACT_STRING>", at("DeleteGroupsRequest", 2, "GroupsNames", 1, 1));
        places.put("COMPACT_NULLABLE_ARRAY<INT32>",
            at("AlterPartitionReassignmentsRequest/Topics/Partitions", 0, "Replicas", 1, 1));
        places.put("COMPACT_NULLABLE_ARRAY<COMPACT_STRING>",
            at("DescribeConfigsRequest/Resources", 4, "ConfigurationKeys", 1, 1));
        return places;
    }

    private static Place at(String path, int version, String field, int least, int after) {
        List<String> steps = List.of(path.split("/"));
        return new Place(steps.get(0), steps.subList(1, steps.size()), version, field, least, after);
    }

    private static Codec varint() {
        return new NumberCodec<>(ofRecords("Varint"),
            value -> (int) Notation.asInteger(value, "VARINT", Integer.MIN_VALUE, Integer.MAX_VALUE, "int"),
            ByteUtils::readVarint, ByteUtils::writeVarint, ByteUtils::sizeOfVarint);
    }

    private static Codec varlong() {
        return new NumberCodec<>(ofRecords("Varlong"),
            value -> Notation.asInteger(value, "VARLONG", Long.MIN_VALUE, Long.MAX_VALUE, "long"),
            bytes -> Long.toString(ByteUtils.readVarlong(bytes)), ByteUtils::writeVarlong, ByteUtils::sizeOfVarlong);
    }

    private static Doors ofRecords(String number) {
        return new Doors("internal: KafkaConsumer.poll > DefaultRecord.readFrom > ByteUtils.read" + number,
            "internal: KafkaProducer.send > DefaultRecord.writeTo > ByteUtils.write" + number,
            "internal: KafkaProducer.send > DefaultRecord.sizeInBytes > ByteUtils.sizeOf" + number);
    }

    /** Kafka uses a Java int for the 32 bits. */
    private static Codec unsignedVarint() {
        Doors doors = new Doors("internal: Message.read > ByteBufferAccessor > ByteUtils.readUnsignedVarint",
            "internal: Message.write > SendBuilder > ByteUtils.writeUnsignedVarint",
            "internal: Message.addSize > ByteUtils.sizeOfUnsignedVarint");
        return new NumberCodec<>(doors, NumberCodec::unsignedBits,
            bytes -> Integer.toUnsignedLong(ByteUtils.readUnsignedVarint(bytes)), (number, out) -> {
                ByteBuffer buffer = ByteBuffer.allocate(LONGEST_VARINT);
                ByteUtils.writeUnsignedVarint(number, buffer);
                out.write(buffer.array(), 0, buffer.position());
            }, ByteUtils::sizeOfUnsignedVarint);
    }

    Map<String, Codec> all() {
        return codecs;
    }

    Codec codec(String name) {
        Codec codec = codecs.get(name);
        if (codec == null)
            throw new Unsupported("no such type: " + name);
        return codec;
    }
}
