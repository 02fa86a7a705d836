package datadog.trace.api;

public class DDTags {
    public static final String SPAN_TYPE = "span.type";
    public static final String RESOURCE_NAME = "resource.name";
}
