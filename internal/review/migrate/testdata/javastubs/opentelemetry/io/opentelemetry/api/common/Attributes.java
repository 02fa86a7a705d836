package io.opentelemetry.api.common;

import java.util.Map;

public interface Attributes {
    static AttributesBuilder builder() {
        return new AttributesBuilder();
    }

    Map<String, Object> all();
}
