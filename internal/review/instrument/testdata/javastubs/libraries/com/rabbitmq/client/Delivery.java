package com.rabbitmq.client;

import java.util.Map;

public record Delivery(Map<String, Object> headers, byte[] getBody) {
    public record Properties(Map<String, Object> getHeaders) {}

    public Properties getProperties() {
        return new Properties(headers);
    }
}
