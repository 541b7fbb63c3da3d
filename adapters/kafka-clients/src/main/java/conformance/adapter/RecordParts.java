package conformance.adapter;

import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.record.internal.DefaultRecord;
import org.apache.kafka.common.record.internal.Record;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** Shared code of single records and records in a batch. */
final class RecordParts {

    /** A header with a possible null key, so that the writer's check is tested. */
    private record PlainHeader(String key, byte[] value) implements Header {}

    private RecordParts() {}

    static Header[] headers(Map<?, ?> record) {
        List<?> list = Notation.list(Notation.get(record, "headers"));
        Header[] headers = new Header[list.size()];
        for (int i = 0; i < headers.length; i++) {
            Map<?, ?> header = Notation.object(list.get(i));
            headers[i] = new PlainHeader(Notation.text(header, "key"), Notation.array(Notation.get(header, "value")));
        }
        return headers;
    }

    /** Reads the lazy parts: Kafka decodes header keys to strings only when they are used. */
    static void readAll(Record record) {
        for (Header header : record.headers()) {
            header.key();
            header.value();
        }
    }

    /** Adds the end of a record's notation: key, value, headers. */
    static void showContent(Record record, Map<String, Object> shown) {
        shown.put("key", Notation.hex(record.key()));
        shown.put("value", Notation.hex(record.value()));
        shown.put("headers", show(Arrays.asList(record.headers())));
    }

    static List<Object> show(Iterable<Header> headers) {
        List<Object> shown = new ArrayList<>();
        for (Header header : headers) {
            Map<String, Object> entry = new LinkedHashMap<>();
            entry.put("key", header.key());
            entry.put("value", Notation.hex(header.value()));
            shown.add(entry);
        }
        return shown;
    }

    static void showAttributes(Record record, Map<String, Object> shown) {
        if (record instanceof DefaultRecord withAttributes)
            shown.put("attributes", withAttributes.attributes());
    }
}
