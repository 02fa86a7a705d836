package datadog.trace.api;

public class DDSpanTypes {
    public static final String HTTP_SERVER = "web";
}
