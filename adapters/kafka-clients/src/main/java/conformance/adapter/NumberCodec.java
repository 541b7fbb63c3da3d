package conformance.adapter;

import java.io.ByteArrayOutputStream;
import java.io.DataOutput;
import java.io.DataOutputStream;
import java.io.IOException;
import java.math.BigInteger;
import java.nio.ByteBuffer;
import java.util.Map;
import java.util.function.Function;
import java.util.function.ToIntFunction;

/** A number with separate read and write functions in Kafka. */
final class NumberCodec<T> implements Codec {

    /** Writes a number. */
    interface Writer<T> {
        void write(T number, DataOutput out) throws IOException;
    }

    private final Doors doors;
    private final Function<Object, T> javaValue;
    private final Function<ByteBuffer, Object> reader;
    private final Writer<T> writer;
    private final ToIntFunction<T> sizer;

    /** `javaValue` converts the notation to Kafka's argument, and `reader` returns the notation. */
    NumberCodec(Doors doors, Function<Object, T> javaValue, Function<ByteBuffer, Object> reader, Writer<T> writer,
            ToIntFunction<T> sizer) {
        this.doors = doors;
        this.javaValue = javaValue;
        this.reader = reader;
        this.writer = writer;
        this.sizer = sizer;
    }

    /** Returns a Java int with the 32 bits, Kafka's form of an unsigned number. */
    static int unsignedBits(Object value) {
        BigInteger number = value instanceof String ? null : Notation.integer(value);
        if (number == null)
            throw Unsupported.badRequest("an integer is expected");
        if (number.signum() < 0 || number.bitLength() > 32)
            throw new Unsupported("the API takes 32 bits and checks no more");
        return number.intValue();
    }

    @Override
    public Doors doors() {
        return doors;
    }

    @Override
    public Decoded decode(ByteBuffer bytes) {
        Object value = Library.call(() -> reader.apply(bytes));
        return new Decoded(value, bytes.position());
    }

    @Override
    public ByteBuffer encode(Object value, Map<?, ?> request) {
        T number = javaValue.apply(value);
        return Library.call(() -> {
            ByteArrayOutputStream bytes = new ByteArrayOutputStream();
            writer.write(number, new DataOutputStream(bytes));
            return ByteBuffer.wrap(bytes.toByteArray());
        });
    }

    @Override
    public int size(Object value, Map<?, ?> request) {
        T number = javaValue.apply(value);
        return Library.call(() -> sizer.applyAsInt(number));
    }
}
