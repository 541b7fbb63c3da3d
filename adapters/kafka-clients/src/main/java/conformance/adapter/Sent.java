package conformance.adapter;

import org.apache.kafka.common.network.Send;
import org.apache.kafka.common.network.TransferableChannel;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;

/** A connection that stores the sent bytes. */
final class Sent implements TransferableChannel {

    private final ByteArrayOutputStream bytes = new ByteArrayOutputStream();

    private Sent() {}

    /** Returns all sent bytes. */
    static ByteBuffer bytes(Send send) throws IOException {
        Sent sent = new Sent();
        while (!send.completed())
            send.writeTo(sent);
        return ByteBuffer.wrap(sent.bytes.toByteArray());
    }

    @Override
    public int write(ByteBuffer buffer) {
        byte[] written = new byte[buffer.remaining()];
        buffer.get(written);
        bytes.writeBytes(written);
        return written.length;
    }

    @Override
    public long write(ByteBuffer[] buffers) {
        return write(buffers, 0, buffers.length);
    }

    @Override
    public long write(ByteBuffer[] buffers, int offset, int length) {
        long written = 0;
        for (int i = offset; i < offset + length; i++)
            written += write(buffers[i]);
        return written;
    }

    @Override
    public long transferFrom(FileChannel file, long position, long count) {
        throw new IllegalStateException("nothing here is sent from a file");
    }

    @Override
    public boolean hasPendingWrites() {
        return false;
    }

    @Override
    public boolean isOpen() {
        return true;
    }

    @Override
    public void close() {}
}
