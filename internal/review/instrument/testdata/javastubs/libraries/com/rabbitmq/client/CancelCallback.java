package com.rabbitmq.client;

public interface CancelCallback {
    void handle(String tag) throws java.io.IOException;
}
