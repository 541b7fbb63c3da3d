package conformance.adapter;

import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.MessageUtil;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.common.protocol.SendBuilder;
import org.apache.kafka.common.requests.ResponseHeader;

import java.nio.ByteBuffer;
import java.util.Map;
import java.util.concurrent.Callable;

/** A message in one version, read and written by its generated class. */
final class MessageCodec implements Codec {

    static final Doors DOORS = new Doors(
        "internal: RequestContext.parseRequest, NetworkClient.parseResponse, ConsumerProtocol > Message.read",
        "internal: SendBuilder.buildSend; what is no request or response: MessageUtil > Message.write",
        "internal: SendBuilder.buildSend, MessageUtil > Message.addSize");

    /** The bytes before a sent message: the size, and a response header of version 0. */
    private static final int SENT_BEFORE = 8;
    private static final int VERSION_BEFORE = 2;
    private static final ResponseHeader NO_HEADER = new ResponseHeader(0, (short) 0);

    private final Structure structure;
    private final short version;
    private final boolean isSent;

    MessageCodec(Structure structure, short version, boolean isSent) {
        this.structure = structure;
        this.version = version;
        this.isSent = isSent;
    }

    @Override
    public Doors doors() {
        return DOORS;
    }

    @Override
    public Decoded decode(ByteBuffer bytes) {
        Message message = structure.create();
        Library.call(() -> {
            message.read(new ByteBufferAccessor(bytes), version);
            return null;
        });
        return new Decoded(show(message), bytes.position());
    }

    private Object show(Message message) {
        try {
            return structure.show(message, version, new Structure.Room());
        } catch (Structure.Room.Full e) {
            return NOT_SHOWN;
        }
    }

    @Override
    public ByteBuffer encode(Object value, Map<?, ?> request) {
        Message message = structure.fill(value);
        return written(() -> {
            if (isSent)
                return Sent.bytes(SendBuilder.buildResponseSend(NO_HEADER, message, version))
                    .position(SENT_BEFORE).slice();
            return MessageUtil.toVersionPrefixedByteBuffer(version, message).position(VERSION_BEFORE).slice();
        });
    }

    @Override
    public int size(Object value, Map<?, ?> request) {
        Message message = structure.fill(value);
        return written(() -> message.size(new ObjectSerializationCache(), version));
    }

    /**
     * By the document of the definitions, null in a field that is not nullable is "a runtime error": Kafka's classes
     * throw a NullPointerException when they write it, so that is a rejection.
     */
    private static <T> T written(Callable<T> kafka) {
        return Library.call(() -> {
            try {
                return kafka.call();
            } catch (NullPointerException e) {
                throw new IllegalArgumentException("null in a field that is not nullable: " + e.getMessage(), e);
            }
        });
    }
}
