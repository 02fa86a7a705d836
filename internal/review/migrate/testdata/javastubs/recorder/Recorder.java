package recorder;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/** Records the spans of a program. */
public final class Recorder {
    private static final List<Recorder> SPANS = new ArrayList<>();

    public final String traceId;
    public final String spanId;
    private final String parentId;
    private final Map<String, Object> tags = new TreeMap<>();
    private final List<Map<String, Object>> events = new ArrayList<>();
    private String name;
    private String kind = "";
    private boolean error;
    private boolean ended;

    public Recorder(String name, String traceId, String parentId) {
        this.name = name;
        this.parentId = parentId;
        this.spanId = String.format("%016x", SPANS.size() + 1);
        this.traceId = traceId.isEmpty() ? "0000000000000000" + spanId : traceId;
        SPANS.add(this);
    }

    /** Prints the spans: a line of JSON each, in the order of their starts. */
    public static void print() {
        SPANS.forEach(s -> System.out.println(s.json()));
    }

    public void name(String name) {
        this.name = name;
    }

    public void kind(String kind) {
        this.kind = kind;
    }

    public void error() {
        error = true;
    }

    public void tag(String key, Object value) {
        tags.put(key, value);
    }

    public void event(Map<String, ?> fields) {
        events.add(new TreeMap<>(fields));
    }

    public void end() {
        ended = true;
    }

    private String json() {
        Map<String, Object> out = new TreeMap<>();
        out.put("attributes", tags);
        out.put("ended", ended);
        out.put("error", error);
        out.put("events", events);
        out.put("kind", kind);
        out.put("name", name);
        out.put("parent", parentId);
        out.put("span", spanId);
        out.put("trace", traceId);
        return json(out);
    }

    private static String json(Object value) {
        if (value instanceof Map) {
            List<String> members = new ArrayList<>();
            ((Map<?, ?>) value).forEach((k, v) -> members.add(json(k) + ":" + json(v)));
            return "{" + String.join(",", members) + "}";
        }
        if (value instanceof List) {
            List<String> elements = new ArrayList<>();
            ((List<?>) value).forEach(v -> elements.add(json(v)));
            return "[" + String.join(",", elements) + "]";
        }
        if (value instanceof Boolean) {
            return value.toString();
        }
        if (value instanceof Number) {
            double number = ((Number) value).doubleValue();
            return number == Math.rint(number) ? Long.toString((long) number) : Double.toString(number);
        }
        return '"' + String.valueOf(value).replace("\\", "\\\\").replace("\"", "\\\"") + '"';
    }
}
