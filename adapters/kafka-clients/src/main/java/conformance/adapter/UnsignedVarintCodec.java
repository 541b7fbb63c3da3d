package conformance.adapter;

// ByteUtils is in `utils` up to Kafka 4.3 and in `utils.internals` from 4.4 on: the wildcards find it in either
import org.apache.kafka.common.utils.*;
import org.apache.kafka.common.utils.internals.*;

import java.math.BigInteger;
import java.nio.ByteBuffer;
import java.util.Map;

/** UNSIGNED_VARINT, which has no Type of its own: Kafka's helper takes and gives the 32 bits as a Java int. */
final class UnsignedVarintCodec implements Codec {

    private static final int MAX_BYTES = 5;

    @Override
    public Decoded decode(ByteBuffer bytes) {
        int value = Library.call(() -> ByteUtils.readUnsignedVarint(bytes));
        return new Decoded(Integer.toUnsignedLong(value), bytes.position());
    }

    @Override
    public ByteBuffer encode(Object value, Map<?, ?> request) {
        int bits = bits(value);
        return Library.call(() -> {
            ByteBuffer buffer = ByteBuffer.allocate(MAX_BYTES);
            ByteUtils.writeUnsignedVarint(bits, buffer);
            return buffer.flip();
        });
    }

    @Override
    public int size(Object value, Map<?, ?> request) {
        int bits = bits(value);
        return Library.call(() -> ByteUtils.sizeOfUnsignedVarint(bits));
    }

    private static int bits(Object value) {
        BigInteger number = value instanceof String ? null : Notation.integer(value);
        if (number == null)
            throw Unsupported.badRequest("an integer is expected");
        if (number.signum() < 0 || number.bitLength() > 32)
            throw new Unsupported("the API takes the 32 bits of a Java int");
        return number.intValue();
    }
}
