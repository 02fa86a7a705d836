package io.opencensus.trace;

import java.util.HashMap;
import java.util.Map;
import recorder.Recorder;

public class Span {
    public enum Kind {
        SERVER,
        CLIENT
    }

    static final Span BLANK = new Span(null);

    private final Recorder recorder;

    Span(Recorder recorder) {
        this.recorder = recorder;
    }

    public void putAttribute(String key, AttributeValue value) {
        recorder.tag(key, value.value);
    }

    public final void addAnnotation(String description) {
        addAnnotation(description, Map.of());
    }

    public void addAnnotation(String description, Map<String, AttributeValue> attributes) {
        Map<String, Object> fields = new HashMap<>();
        fields.put("event", description);
        attributes.forEach((k, v) -> fields.put(k, v.value));
        recorder.event(fields);
    }

    public void setStatus(Status status) {
        if (status != Status.OK) {
            recorder.error();
        }
    }

    public final SpanContext getContext() {
        return recorder == null ? new SpanContext("", "") : new SpanContext(recorder.traceId, recorder.spanId);
    }

    public final void end() {
        recorder.end();
    }
}
