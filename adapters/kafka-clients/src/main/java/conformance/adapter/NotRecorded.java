package conformance.adapter;

import org.apache.kafka.storage.internals.log.LogValidator;

/** The metrics that a broker keeps of what it refuses, which nobody asks for here. */
enum NotRecorded implements LogValidator.MetricsRecorder {
    METRICS;

    @Override
    public void recordInvalidMagic() {}

    @Override
    public void recordInvalidOffset() {}

    @Override
    public void recordInvalidSequence() {}

    @Override
    public void recordInvalidChecksums() {}

    @Override
    public void recordNoKeyCompactedTopic() {}
}
