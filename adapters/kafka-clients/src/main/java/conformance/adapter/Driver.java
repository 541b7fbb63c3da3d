package conformance.adapter;

import com.fasterxml.jackson.jr.ob.JSON;
// AppInfoParser is in `utils` up to Kafka 4.3 and in `utils.internals` from 4.4 on: the wildcards find it in either
import org.apache.kafka.common.utils.*;
import org.apache.kafka.common.utils.internals.*;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;

/** Consumes or writes each topic of the suite like an application, until the input ends. */
public final class Driver {

    public static void main(String[] args) throws IOException {
        Output.writeLine(Map.of("version", AppInfoParser.getVersion()));
        ExecutorService pool = Executors.newFixedThreadPool(Integer.parseInt(args[0]), Driver::thread);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            Map<String, Object> task = JSON.std.mapFrom(line);
            pool.submit(() -> serve(task));
        }
    }

    private static Thread thread(Runnable work) {
        Thread thread = new Thread(work);
        thread.setDaemon(true);
        return thread;
    }

    private static void serve(Map<String, Object> task) {
        Map<String, Object> last = new LinkedHashMap<>(Map.of("topic", task.get("topic")));
        try {
            if (task.containsKey("produce"))
                Writer.write(task);
            else
                Reader.read(task);
            last.put("end", true);
        } catch (Throwable e) {
            if (Library.isRefusal(e)) {
                last.put("error", Library.errorClass(e, "read"));
                last.put("message", String.valueOf(e));
            } else {
                last.put("crash", String.valueOf(e));
            }
        }
        Output.writeLine(last);
    }
}
