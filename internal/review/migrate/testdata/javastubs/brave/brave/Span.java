package brave;

import brave.propagation.TraceContext;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.function.Consumer;
import recorder.Recorder;

/** Records what is set before its start when it starts. */
public class Span implements SpanCustomizer {
    public enum Kind {
        CLIENT,
        SERVER,
        PRODUCER,
        CONSUMER
    }

    private final TraceContext parent;
    private List<Consumer<Recorder>> pending = new ArrayList<>();
    private Recorder recorder;

    Span(TraceContext parent) {
        this.parent = parent;
    }

    private Span record(Consumer<Recorder> change) {
        if (recorder == null) {
            pending.add(change);
        } else {
            change.accept(recorder);
        }
        return this;
    }

    @Override
    public Span name(String name) {
        return record(r -> r.name(name));
    }

    @Override
    public Span tag(String key, String value) {
        return record(r -> {
            if (key.equals("error")) {
                r.error();
            } else {
                r.tag(key, value);
            }
        });
    }

    @Override
    public Span annotate(String value) {
        return record(r -> r.event(Map.of("event", value)));
    }

    public Span annotate(long timestamp, String value) {
        return record(r -> r.event(Map.of("event", value, "test.time", timestamp)));
    }

    public Span kind(Kind kind) {
        return record(r -> r.kind(kind.name().toLowerCase(Locale.ROOT)));
    }

    public Span error(Throwable throwable) {
        return record(r -> {
            r.error();
            r.event(Map.of("error.object", throwable.toString()));
        });
    }

    public Span remoteServiceName(String remoteServiceName) {
        return tag("peer.service", remoteServiceName);
    }

    public Span start() {
        recorder = new Recorder("", parent == null ? "" : parent.traceIdString(), parent == null ? "" : parent.spanIdString());
        pending.forEach(change -> change.accept(recorder));
        return this;
    }

    public Span start(long timestamp) {
        start();
        recorder.tag("test.start", timestamp);
        return this;
    }

    public TraceContext context() {
        return new TraceContext(recorder.traceId, recorder.spanId);
    }

    public void finish() {
        recorder.end();
    }

    public void finish(long timestamp) {
        recorder.tag("test.end", timestamp);
        recorder.end();
    }
}
