package conformance.adapter;

import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.errors.CorruptRecordException;
import org.apache.kafka.common.errors.UnsupportedCompressionTypeException;

import java.lang.reflect.InvocationTargetException;
import java.nio.BufferUnderflowException;
import java.util.concurrent.Callable;

/**
 * The border between this program and Kafka. Every call into Kafka goes through {@link #call}, so that a fault of
 * the adapter is never reported as Kafka's.
 */
final class Library {

    /** Whatever Kafka threw, as the cause. */
    static final class Failure extends RuntimeException {
        Failure(Throwable thrown) {
            super(null, thrown, false, false);
        }
    }

    private Library() {}

    static <T> T call(Callable<T> kafka) {
        try {
            return kafka.call();
        } catch (Unsupported e) {
            throw e;
        } catch (Throwable thrown) { // errors too: OutOfMemoryError and StackOverflowError are answers here
            Throwable e = thrown instanceof InvocationTargetException ? thrown.getCause() : thrown; // called by name
            if (isBrokenInstallation(e))
                throw new Unsupported("a library is missing or cannot be loaded here: " + e);
            throw new Failure(e);
        }
    }

    /** The codecs load native code when they are first used, and wrap what goes wrong then. */
    private static boolean isBrokenInstallation(Throwable thrown) {
        int depth = 0;
        for (Throwable t = thrown; t != null && depth++ < 10; t = t.getCause())
            if (t instanceof LinkageError)
                return true;
        return false;
    }

    /** Whether Kafka refused on purpose; everything else (null, index, cast, memory...) is a crash. */
    static boolean isRefusal(Throwable thrown) {
        return thrown instanceof KafkaException
            || thrown instanceof IllegalArgumentException
            || thrown instanceof BufferUnderflowException
            // TaggedFields, RawTaggedFieldWriter and the generated classes throw it bare, with a message
            || thrown.getClass() == RuntimeException.class && thrown.getMessage() != null;
    }

    /** The protocol's error class for a refusal. */
    static String errorClass(Throwable refusal, String op) {
        if (op.equals("encode") || op.equals("size"))
            return "invalid-value";
        if (isCorrupt(refusal))
            return "corrupt";
        // a codec that the magic asked for does not have
        if (op.equals("convert") && refusal instanceof UnsupportedCompressionTypeException)
            return "invalid-value";
        if (isUnknownCodec(refusal))
            return "unsupported-codec";
        return "malformed";
    }

    private static boolean isCorrupt(Throwable refusal) {
        int depth = 0;
        for (Throwable t = refusal; t != null && depth++ < 10; t = t.getCause()) {
            if (t instanceof CorruptRecordException)
                return true;
            // the consumer replaces that exception by one that keeps its message only
            String message = t.getMessage();
            if (t instanceof KafkaException && message != null && message.contains(" is invalid, cause: "))
                return true;
        }
        return false;
    }

    private static boolean isUnknownCodec(Throwable refusal) {
        if (refusal instanceof UnsupportedCompressionTypeException)
            return true;
        // CompressionType.forId has no exception class of its own
        String message = refusal.getMessage();
        return refusal instanceof IllegalArgumentException
            && message != null && message.startsWith("Unknown compression type id");
    }
}
