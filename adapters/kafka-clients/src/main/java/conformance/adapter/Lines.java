package conformance.adapter;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;

/** Lines of any length from a stream, with an action before each read that may wait. */
final class Lines {

    interface BeforeWaiting {
        void run() throws IOException;
    }

    private final InputStream in;
    private final BeforeWaiting beforeWaiting;
    private final byte[] chunk = new byte[1 << 16];
    private int position;
    private int end;

    Lines(InputStream in, BeforeWaiting beforeWaiting) {
        this.in = in;
        this.beforeWaiting = beforeWaiting;
    }

    /** Returns the next line without its end, or null after the last. */
    byte[] next() throws IOException {
        ByteArrayOutputStream line = new ByteArrayOutputStream();
        while (true) {
            int start = position;
            while (position < end && chunk[position] != '\n')
                position++;
            line.write(chunk, start, position - start);
            if (position < end) {
                position++;
                return line.toByteArray();
            }
            beforeWaiting.run();
            position = 0;
            end = Math.max(0, in.read(chunk));
            if (end == 0)
                return line.size() > 0 ? line.toByteArray() : null;
        }
    }
}
