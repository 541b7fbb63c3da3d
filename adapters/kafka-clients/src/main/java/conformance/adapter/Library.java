package conformance.adapter;

import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.errors.CorruptRecordException;
import org.apache.kafka.common.errors.UnsupportedCompressionTypeException;

import java.lang.reflect.InvocationTargetException;
import java.nio.BufferUnderflowException;
import java.util.concurrent.Callable;

/**
 * The boundary between this program and Kafka. Every call into Kafka uses {@link #call}, so that a fault of the
 * adapter is never reported as Kafka's.
 */
final class Library {

    /** Has the exception of Kafka as its cause. */
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
        } catch (Throwable thrown) { // OutOfMemoryError and StackOverflowError count too
            Throwable e = thrown instanceof InvocationTargetException ? thrown.getCause() : thrown; // from reflection
            if (isBrokenInstallation(e))
                throw new Unsupported("a library is missing or cannot be loaded here: " + e);
            throw new Failure(e);
        }
    }

    /** The codecs load native code at their first use, and wrap its errors. */
    private static boolean isBrokenInstallation(Throwable thrown) {
        int depth = 0;
        for (Throwable t = thrown; t != null && depth++ < 10; t = t.getCause())
            if (t instanceof LinkageError)
                return true;
        return false;
    }

    /** Returns true if Kafka threw it on purpose; everything else (null, index, cast, memory...) is a crash. */
    static boolean isRefusal(Throwable thrown) {
        return thrown instanceof KafkaException
            || thrown instanceof IllegalArgumentException
            || thrown instanceof BufferUnderflowException
            // TaggedFields, RawTaggedFieldWriter and the generated classes throw it bare, with a message
            || thrown.getClass() == RuntimeException.class && thrown.getMessage() != null;
    }

    /** Returns the protocol's error class of a rejection. */
    static String errorClass(Throwable refusal, String op) {
        if (op.equals("encode") || op.equals("size"))
            return "invalid-value";
        if (isCorrupt(refusal))
            return "corrupt";
        // a codec that the requested magic lacks
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
            // the consumer replaces that exception by one with only its message
            String message = t.getMessage();
            if (t instanceof KafkaException && message != null && message.contains(" is invalid, cause: "))
                return true;
        }
        return false;
    }

    private static boolean isUnknownCodec(Throwable refusal) {
        if (refusal instanceof UnsupportedCompressionTypeException)
            return true;
        // CompressionType.forId has no own exception class
        String message = refusal.getMessage();
        return refusal instanceof IllegalArgumentException
            && message != null && message.startsWith("Unknown compression type id");
    }
}
