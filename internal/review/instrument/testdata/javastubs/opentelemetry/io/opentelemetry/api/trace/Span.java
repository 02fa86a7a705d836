package io.opentelemetry.api.trace;

import io.opentelemetry.api.common.AttributeKey;
import io.opentelemetry.context.Context;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.TreeMap;
import recorder.Recorder;

public final class Span {
    public final String name;
    private final String scope;
    final Map<String, Object> attributes = new TreeMap<>();
    SpanKind kind = SpanKind.INTERNAL;
    Span parent;
    public String trace = "";
    public String id = "";
    private String error = "";
    private boolean failed;
    private boolean ended;

    Span(String name, String scope) {
        this.name = name;
        this.scope = scope;
    }

    public static Span remote(String trace, String id) {
        Span span = new Span("remote", "");
        span.trace = trace;
        span.id = id;
        return span;
    }

    public static Span fromContext(Context context) {
        return context.value();
    }

    void start() {
        id = Recorder.next();
        trace = parent == null ? "0000000000000000" + id : parent.trace;
    }

    public <T> Span setAttribute(AttributeKey<T> key, T value) {
        attributes.put(key.getKey(), value);
        return this;
    }

    public Span setStatus(StatusCode status) {
        failed = status == StatusCode.ERROR;
        return this;
    }

    public Span recordException(Throwable exception) {
        error = exception.getMessage();
        return this;
    }

    public void end() {
        if (ended) {
            throw new IllegalStateException("ended twice: " + name);
        }
        ended = true;
        Map<String, Object> fields = new LinkedHashMap<>();
        fields.put("name", name);
        fields.put("kind", kind);
        fields.put("scope", scope);
        fields.put("trace", trace);
        fields.put("id", id);
        fields.put("parent", parent == null ? "" : parent.id);
        fields.put("attributes", attributes);
        fields.put("failed", failed);
        fields.put("exception", error);
        Recorder.write(fields);
    }
}
