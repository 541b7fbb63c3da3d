package conformance.adapter;

import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.ObjectSerializationCache;

import java.nio.ByteBuffer;
import java.util.Map;
import java.util.concurrent.Callable;

/** A message in one version, as the class that Kafka generated for it reads and writes it. */
final class MessageCodec implements Codec {

    private final Structure structure;
    private final short version;

    MessageCodec(Structure structure, short version) {
        this.structure = structure;
        this.version = version;
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
            ObjectSerializationCache cache = new ObjectSerializationCache();
            ByteBuffer bytes = ByteBuffer.allocate(message.size(cache, version));
            message.write(new ByteBufferAccessor(bytes), cache, version);
            return bytes.flip();
        });
    }

    @Override
    public int size(Object value, Map<?, ?> request) {
        Message message = structure.fill(value);
        return written(() -> message.size(new ObjectSerializationCache(), version));
    }

    /**
     * Null where the version has none is to end in "a runtime error", as the document of the definitions has it: what
     * Kafka's classes throw on writing is a NullPointerException, so there it is a refusal.
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
