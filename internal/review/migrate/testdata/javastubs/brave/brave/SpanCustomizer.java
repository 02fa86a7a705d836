package brave;

public interface SpanCustomizer {
    SpanCustomizer name(String name);

    SpanCustomizer tag(String key, String value);

    SpanCustomizer annotate(String value);
}
