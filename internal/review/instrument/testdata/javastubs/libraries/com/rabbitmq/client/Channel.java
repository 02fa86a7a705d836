package com.rabbitmq.client;

public class Channel {
    private DeliverCallback deliver;

    public String basicConsume(String queue, boolean autoAck, DeliverCallback deliver, CancelCallback cancel) {
        this.deliver = deliver;
        return "tag";
    }

    public void deliver(Delivery delivery) throws java.io.IOException {
        deliver.handle("tag", delivery);
    }
}
