package conformance.adapter;

import org.apache.kafka.storage.internals.log.LogValidator;

/** A broker's metrics of rejected records, which are not used here. */
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
