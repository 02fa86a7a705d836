package io.opentelemetry.api.trace;

import io.opentelemetry.api.common.AttributeKey;
import io.opentelemetry.api.common.Attributes;
import io.opentelemetry.context.Context;
import java.util.HashMap;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import recorder.Recorder;

/** Records a span, unless it is invalid or remote. */
public final class RecordedSpan implements Span {
    static final Span INVALID = remote("", "");

    private final Recorder recorder; // null if it does not record
    private final SpanContext context;

    private RecordedSpan(Recorder recorder, String traceId, String spanId) {
        this.recorder = recorder;
        context = new SpanContext() {
            @Override
            public String getTraceId() {
                return traceId;
            }

            @Override
            public String getSpanId() {
                return spanId;
            }
        };
    }

    public static Span remote(String traceId, String spanId) {
        return new RecordedSpan(null, traceId, spanId);
    }

    private Span record(String key, Object value) {
        if (recorder != null) {
            recorder.tag(key, value);
        }
        return this;
    }

    private Span event(Map<String, Object> attributes, String name, Object... more) {
        Map<String, Object> fields = new HashMap<>(attributes);
        fields.put("event", name);
        for (int i = 0; i < more.length; i += 2) {
            fields.put((String) more[i], more[i + 1]);
        }
        if (recorder != null) {
            recorder.event(fields);
        }
        return this;
    }

    @Override
    public Span setAttribute(String key, String value) {
        return record(key, value);
    }

    @Override
    public Span setAttribute(String key, long value) {
        return record(key, value);
    }

    @Override
    public Span setAttribute(String key, double value) {
        return record(key, value);
    }

    @Override
    public Span setAttribute(String key, boolean value) {
        return record(key, value);
    }

    @Override
    public <T> Span setAttribute(AttributeKey<T> key, T value) {
        return record(key.getKey(), value);
    }

    @Override
    public Span addEvent(String name) {
        return event(Map.of(), name);
    }

    @Override
    public Span addEvent(String name, long timestamp, TimeUnit unit) {
        return event(Map.of(), name, "test.time", unit.toMicros(timestamp));
    }

    @Override
    public Span addEvent(String name, Attributes attributes) {
        return event(attributes.all(), name);
    }

    @Override
    public Span addEvent(String name, Attributes attributes, long timestamp, TimeUnit unit) {
        return event(attributes.all(), name, "test.time", unit.toMicros(timestamp));
    }

    @Override
    public Span setStatus(StatusCode statusCode) {
        if (statusCode == StatusCode.ERROR && recorder != null) {
            recorder.error();
        }
        return this;
    }

    @Override
    public Span setStatus(StatusCode statusCode, String description) {
        return setStatus(statusCode);
    }

    @Override
    public Span recordException(Throwable exception) {
        return event(Map.of(), "exception", "exception.message", exception.getMessage());
    }

    @Override
    public Span recordException(Throwable exception, Attributes attributes) {
        return event(attributes.all(), "exception", "exception.message", exception.getMessage());
    }

    @Override
    public Span updateName(String name) {
        if (recorder != null) {
            recorder.name(name);
        }
        return this;
    }

    @Override
    public void end() {
        if (recorder != null) {
            recorder.end();
        }
    }

    @Override
    public void end(long timestamp, TimeUnit unit) {
        record("test.end", unit.toMicros(timestamp));
        end();
    }

    @Override
    public SpanContext getSpanContext() {
        return context;
    }

    @Override
    public boolean isRecording() {
        return recorder != null;
    }

    /** Starts recorded spans. */
    public static final class Builder implements SpanBuilder {
        private final String name;
        private final Map<String, Object> attributes = new HashMap<>();
        private Context parent;
        private SpanKind kind = SpanKind.INTERNAL;

        public Builder(String name) {
            this.name = name;
        }

        @Override
        public SpanBuilder setParent(Context context) {
            parent = context;
            return this;
        }

        @Override
        public SpanBuilder setNoParent() {
            parent = Context.root();
            return this;
        }

        @Override
        public SpanBuilder setAttribute(String key, String value) {
            attributes.put(key, value);
            return this;
        }

        @Override
        public SpanBuilder setAttribute(String key, long value) {
            attributes.put(key, value);
            return this;
        }

        @Override
        public SpanBuilder setAttribute(String key, double value) {
            attributes.put(key, value);
            return this;
        }

        @Override
        public SpanBuilder setAttribute(String key, boolean value) {
            attributes.put(key, value);
            return this;
        }

        @Override
        public <T> SpanBuilder setAttribute(AttributeKey<T> key, T value) {
            attributes.put(key.getKey(), value);
            return this;
        }

        @Override
        public SpanBuilder setSpanKind(SpanKind spanKind) {
            kind = spanKind;
            return this;
        }

        @Override
        public SpanBuilder setStartTimestamp(long startTimestamp, TimeUnit unit) {
            return setAttribute("test.start", unit.toMicros(startTimestamp));
        }

        @Override
        public Span startSpan() {
            SpanContext from = Span.fromContext(parent == null ? Context.current() : parent).getSpanContext();
            Recorder recorder = new Recorder(name, from.getTraceId(), from.getSpanId());
            attributes.forEach(recorder::tag);
            if (kind != SpanKind.INTERNAL) {
                recorder.kind(kind.name().toLowerCase(Locale.ROOT));
            }
            return new RecordedSpan(recorder, recorder.traceId, recorder.spanId);
        }
    }
}
