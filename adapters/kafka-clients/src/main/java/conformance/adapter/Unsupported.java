package conformance.adapter;

/** The request cannot be put to Kafka; says nothing about Kafka itself. */
final class Unsupported extends RuntimeException {

    Unsupported(String reason) {
        super(reason, null, false, false);
    }

    static Unsupported badRequest(String reason) {
        return new Unsupported("bad request: " + reason);
    }
}
