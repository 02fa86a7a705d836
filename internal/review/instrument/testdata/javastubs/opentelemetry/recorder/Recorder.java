package recorder;

import io.opentelemetry.api.common.Attributes;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/** Writes spans and measurements to the standard error: a line of JSON each. */
public final class Recorder {
    private static int spans;

    private Recorder() {}

    public static synchronized String next() {
        return String.format("%016x", ++spans);
    }

    public static synchronized void write(Map<String, Object> fields) {
        System.err.println("recorded " + json(new TreeMap<>(fields)));
    }

    public static Map<String, Object> map(Attributes attributes) {
        return new TreeMap<>(attributes.all());
    }

    private static String json(Object value) {
        if (value instanceof Map) {
            List<String> members = new ArrayList<>();
            ((Map<?, ?>) value).forEach((k, v) -> members.add(json(k) + ":" + json(v)));
            return "{" + String.join(",", members) + "}";
        }
        if (value instanceof Number || value instanceof Boolean) {
            return value.toString();
        }
        if (value instanceof List) {
            List<String> elements = new ArrayList<>();
            ((List<?>) value).forEach(v -> elements.add(json(v)));
            return "[" + String.join(",", elements) + "]";
        }
        return '"' + String.valueOf(value).replace("\\", "\\\\").replace("\"", "\\\"") + '"';
    }
}
