package io.opentracing.propagation;

public interface TextMapInject {
    void put(String key, String value);
}
