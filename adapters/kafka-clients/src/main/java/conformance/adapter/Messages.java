package conformance.adapter;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.json.JsonReadFeature;
import com.fasterxml.jackson.jr.ob.JSON;
import org.apache.kafka.common.protocol.Message;

import java.io.File;
import java.io.IOException;
import java.io.InputStream;
import java.net.URISyntaxException;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.jar.JarFile;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** MESSAGE: the messages of Kafka's jar, which contains their definitions and the classes generated from them. */
final class Messages {

    static final String TYPE = "MESSAGE";

    private static final String FOLDER = "common/message/";
    private static final String SUFFIX = ".json";
    private static final String PACKAGE = "org.apache.kafka.common.message.";
    /** `describe` needs all versions at every start: this finds them without parsing 200 definitions. */
    private static final Pattern VERSIONS =
        Pattern.compile("^\\s*\"validVersions\"\\s*:\\s*\"([^\"]*)\"", Pattern.MULTILINE);

    // a definition of Kafka 3.9 has a duplicate key; the last one counts, as in Kafka's generator
    private final JSON json = JSON.builder(JsonFactory.builder().enable(JsonReadFeature.ALLOW_JAVA_COMMENTS).build())
        .disable(JSON.Feature.FAIL_ON_DUPLICATE_MAP_KEYS)
        .build();
    private final Map<String, Known> known = new HashMap<>();

    private record Known(Versions versions, Structure structure) {}

    /** Returns the names for `describe`, each with its versions, without removed messages. */
    static Map<String, String> versions() {
        Map<String, String> versions = new TreeMap<>();
        try (JarFile jar = new JarFile(jar())) {
            for (var entries = jar.entries(); entries.hasMoreElements(); ) {
                var entry = entries.nextElement();
                String path = entry.getName();
                if (!path.startsWith(FOLDER) || !path.endsWith(SUFFIX))
                    continue;
                String text = new String(jar.getInputStream(entry).readAllBytes(), StandardCharsets.UTF_8);
                Matcher range = VERSIONS.matcher(text);
                if (!range.find())
                    throw new IllegalStateException(path + " names no versions");
                if (!Versions.of(range.group(1)).isNone())
                    versions.put(path.substring(FOLDER.length(), path.length() - SUFFIX.length()), range.group(1));
            }
        } catch (IOException | URISyntaxException e) {
            throw new IllegalStateException("Kafka's jar cannot be read", e);
        }
        return versions;
    }

    private static File jar() throws URISyntaxException {
        return new File(Message.class.getProtectionDomain().getCodeSource().getLocation().toURI());
    }

    /** Returns the codec of the request's `message` in its `version`. */
    Codec codec(Map<?, ?> request) {
        String name = Notation.text(request, "message");
        short version = Notation.int16(request, "version");
        Known message = known(name);
        if (!message.versions.has(version))
            throw new Unsupported("no such version of " + name + ": " + version);
        return new MessageCodec(message.structure, version, isSent(name));
    }

    /** Returns the fields of a message. */
    Structure structure(String name) {
        return known(name).structure;
    }

    /** Returns true if it is sent directly, and not inside another message or a record. */
    static boolean isSent(String name) {
        return name.matches("\\w+(Request|Response)|(Request|Response)Header");
    }

    private Known known(String name) {
        Known message = known.get(name);
        if (message == null) {
            message = read(name);
            known.put(name, message);
        }
        return message;
    }

    private Known read(String name) {
        try (InputStream file = open(name)) {
            Map<String, Object> definition = json.mapFrom(file);
            Versions versions = Versions.of(definition.get("validVersions"));
            if (versions.isNone())
                throw new Unsupported("Kafka has this message no longer: " + name);
            Map<String, List<?>> shared = new HashMap<>();
            if (definition.get("commonStructs") instanceof List<?> structures)
                for (Object entry : structures) {
                    Map<?, ?> structure = Notation.object(entry);
                    shared.put(Notation.text(structure, "name"), Notation.list(structure.get("fields")));
                }
            boolean isApi = List.of("request", "response", "header").contains(Notation.text(definition, "type"));
            Class<?> type = Class.forName(PACKAGE + name + (isApi ? "Data" : ""));
            return new Known(versions, new Structure(type, type, Notation.list(definition.get("fields")), shared));
        } catch (IOException | ReflectiveOperationException e) {
            throw new IllegalStateException("the definition and class of " + name + " cannot be read", e);
        }
    }

    private static InputStream open(String name) {
        InputStream file = name == null || !name.matches("\\w+") ? null
            : Message.class.getResourceAsStream("/" + FOLDER + name + SUFFIX);
        if (file == null)
            throw new Unsupported("no such message: " + name);
        return file;
    }
}
