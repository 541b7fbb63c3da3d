package conformance.adapter;

/** Kafka's API cannot express the request; this is no failure of Kafka. */
final class Unsupported extends RuntimeException {

    Unsupported(String reason) {
        super(reason, null, false, false);
    }

    static Unsupported badRequest(String reason) {
        return new Unsupported("bad request: " + reason);
    }
}
