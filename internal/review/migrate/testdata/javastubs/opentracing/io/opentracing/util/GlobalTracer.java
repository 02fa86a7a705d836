package io.opentracing.util;

import io.opentracing.References;
import io.opentracing.Scope;
import io.opentracing.ScopeManager;
import io.opentracing.Span;
import io.opentracing.SpanContext;
import io.opentracing.Tracer;
import io.opentracing.propagation.Format;
import io.opentracing.propagation.TextMapExtract;
import io.opentracing.propagation.TextMapInject;
import io.opentracing.tag.Tag;
import java.util.Collections;
import java.util.HashMap;
import java.util.Map;
import recorder.Recorder;

/** Records spans: there is no tracer to register. */
public final class GlobalTracer implements Tracer, ScopeManager {
    private static final GlobalTracer INSTANCE = new GlobalTracer();

    private static final class Active implements Scope {
        final RecordedSpan span;
        final boolean finish;
        final Active before;

        Active(RecordedSpan span, boolean finish) {
            this.span = span;
            this.finish = finish;
            before = ACTIVE.get();
            ACTIVE.set(this);
        }

        @Override
        public void close() {
            ACTIVE.set(before);
            if (finish) {
                span.finish();
            }
        }

        @Override
        public Span span() {
            return span;
        }
    }

    private static final ThreadLocal<Active> ACTIVE = new ThreadLocal<>();

    private GlobalTracer() {}

    public static Tracer get() {
        return INSTANCE;
    }

    public static void register(Tracer tracer) {}

    public static boolean registerIfAbsent(Tracer tracer) {
        return true;
    }

    @Override
    public ScopeManager scopeManager() {
        return this;
    }

    @Override
    public Span activeSpan() {
        return ACTIVE.get() == null ? null : ACTIVE.get().span;
    }

    @Override
    public Scope active() {
        return ACTIVE.get();
    }

    @Override
    public Scope activate(Span span) {
        return new Active((RecordedSpan) span, false);
    }

    @Override
    public Scope activateSpan(Span span) {
        return activate(span);
    }

    @Override
    public SpanBuilder buildSpan(String operationName) {
        return new Builder(operationName);
    }

    @Override
    public <C> void inject(SpanContext context, Format<C> format, C carrier) {
        ((TextMapInject) carrier).put("traceparent", "00-" + context.toTraceId() + "-" + context.toSpanId() + "-01");
    }

    @Override
    public <C> SpanContext extract(Format<C> format, C carrier) {
        for (Map.Entry<String, String> e : (TextMapExtract) carrier) {
            if (e.getKey().equalsIgnoreCase("traceparent")) {
                return new Remote(e.getValue().split("-"));
            }
        }
        return null;
    }

    @Override
    public void close() {}

    private static class Remote implements SpanContext {
        private final String traceId;
        private final String spanId;

        Remote(String... parts) {
            traceId = parts[1];
            spanId = parts[2];
        }

        @Override
        public String toTraceId() {
            return traceId;
        }

        @Override
        public String toSpanId() {
            return spanId;
        }

        @Override
        public Iterable<Map.Entry<String, String>> baggageItems() {
            return Collections.emptyList();
        }
    }

    private static final class Builder implements SpanBuilder {
        private final String name;
        private final Map<String, Object> tags = new HashMap<>();
        private SpanContext parent;
        private boolean root;

        Builder(String name) {
            this.name = name;
        }

        @Override
        public SpanBuilder asChildOf(SpanContext context) {
            return addReference(References.CHILD_OF, context);
        }

        @Override
        public SpanBuilder asChildOf(Span span) {
            return addReference(References.CHILD_OF, span == null ? null : span.context());
        }

        @Override
        public SpanBuilder addReference(String type, SpanContext context) {
            parent = parent == null ? context : parent;
            return this;
        }

        @Override
        public SpanBuilder ignoreActiveSpan() {
            root = true;
            return this;
        }

        @Override
        public SpanBuilder withTag(String key, String value) {
            tags.put(key, value);
            return this;
        }

        @Override
        public SpanBuilder withTag(String key, boolean value) {
            tags.put(key, value);
            return this;
        }

        @Override
        public SpanBuilder withTag(String key, Number value) {
            tags.put(key, value);
            return this;
        }

        @Override
        public <T> SpanBuilder withTag(Tag<T> tag, T value) {
            tags.put(tag.getKey(), value);
            return this;
        }

        @Override
        public SpanBuilder withStartTimestamp(long microseconds) {
            tags.put("test.start", microseconds);
            return this;
        }

        @Override
        public Span startManual() {
            return start();
        }

        @Override
        public Scope startActive(boolean finish) {
            return new Active((RecordedSpan) start(), finish);
        }

        @Override
        public Span start() {
            if (parent == null && !root && ACTIVE.get() != null) {
                parent = ACTIVE.get().span.context();
            }
            RecordedSpan span = new RecordedSpan(new Recorder(name, parent == null ? "" : parent.toTraceId(), parent == null ? "" : parent.toSpanId()));
            tags.forEach(span::tag);
            return span;
        }
    }

    private static final class RecordedSpan implements Span {
        private final Recorder recorder;

        RecordedSpan(Recorder recorder) {
            this.recorder = recorder;
        }

        Span tag(String key, Object value) {
            if (key.equals("span.kind")) {
                recorder.kind((String) value);
            } else if (key.equals("error")) {
                recorder.error();
            } else if (key.equals("resource.name")) {
                recorder.name((String) value);
            } else if (key.equals("span.type")) {
                recorder.kind(value.equals("web") ? "server" : "client");
            } else {
                recorder.tag(key, value);
            }
            return this;
        }

        @Override
        public SpanContext context() {
            return new Remote("00", recorder.traceId, recorder.spanId);
        }

        @Override
        public Span setTag(String key, String value) {
            return tag(key, value);
        }

        @Override
        public Span setTag(String key, boolean value) {
            return tag(key, value);
        }

        @Override
        public Span setTag(String key, Number value) {
            return tag(key, value);
        }

        @Override
        public <T> Span setTag(Tag<T> tag, T value) {
            return tag(tag.getKey(), value);
        }

        @Override
        public Span log(Map<String, ?> fields) {
            recorder.event(fields);
            return this;
        }

        @Override
        public Span log(long timestampMicroseconds, Map<String, ?> fields) {
            Map<String, Object> all = new HashMap<>(fields);
            all.put("test.time", timestampMicroseconds);
            return log(all);
        }

        @Override
        public Span log(String event) {
            return log(Collections.singletonMap("event", event));
        }

        @Override
        public Span log(long timestampMicroseconds, String event) {
            return log(timestampMicroseconds, Collections.singletonMap("event", event));
        }

        @Override
        public Span setBaggageItem(String key, String value) {
            return this;
        }

        @Override
        public String getBaggageItem(String key) {
            return null;
        }

        @Override
        public Span setOperationName(String operationName) {
            recorder.name(operationName);
            return this;
        }

        @Override
        public void finish() {
            recorder.end();
        }

        @Override
        public void finish(long finishMicros) {
            recorder.tag("test.end", finishMicros);
            recorder.end();
        }
    }
}
