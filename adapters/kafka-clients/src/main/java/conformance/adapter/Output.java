package conformance.adapter;

import com.fasterxml.jackson.jr.ob.JSON;

import java.io.IOException;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Map;

/** The lines of a driver, from any thread; after the first one, all other output goes to standard error. */
final class Output {

    private static final PrintStream OUT = new PrintStream(System.out, true, StandardCharsets.UTF_8);
    private static final JSON TEXT = JSON.std.with(JSON.Feature.WRITE_NULL_PROPERTIES);

    static {
        System.setOut(System.err);
    }

    private Output() {}

    static void writeLine(Map<String, Object> content) {
        try {
            String line = TEXT.asString(content);
            synchronized (OUT) {
                OUT.println(line);
            }
        } catch (IOException e) {
            throw new IllegalStateException(e);
        }
    }
}
