package com.rabbitmq.client;

public interface DeliverCallback {
    void handle(String tag, Delivery message) throws java.io.IOException;
}
