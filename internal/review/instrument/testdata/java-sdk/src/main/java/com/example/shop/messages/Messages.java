package com.example.shop.messages;

import com.rabbitmq.client.Channel;
import com.rabbitmq.client.DeliverCallback;
import com.rabbitmq.client.Delivery;
import jakarta.jms.Message;
import jakarta.jms.MessageListener;
import jakarta.servlet.annotation.WebServlet;
import jakarta.servlet.http.HttpServlet;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.eclipse.paho.client.mqttv3.MqttCallback;
import org.eclipse.paho.client.mqttv3.MqttClient;
import org.eclipse.paho.client.mqttv3.MqttMessage;

public class Messages implements MqttCallback, MessageListener {
    private static final String PARENT = "00-11111111111111111111111111111111-2222222222222222-01";

    public static void run() throws Exception {
        Messages messages = new Messages();
        messages.consume(List.of(record("a"), record("skipped"), record("broken")));
        messages.deliver();
        MqttClient client = new MqttClient();
        client.setCallback(messages);
        client.subscribe("meters");
        client.deliver("meters", "17");
        messages.onMessage(name -> name.equals("traceparent") ? PARENT : null);
        new Page().doGet(new Request(), new Response());
    }

    private static ConsumerRecord<String, String> record(String value) {
        return new ConsumerRecord<>("orders", "k", value, Map.of("traceparent", PARENT.getBytes(StandardCharsets.UTF_8)));
    }

    void consume(List<ConsumerRecord<String, String>> records) {
        try {
            for (ConsumerRecord<String, String> record : records) {
                if (record.value().equals("skipped")) {
                    continue;
                }
                System.out.println(record.topic() + " " + handle(record.value()));
            }
        } catch (IllegalArgumentException e) {
            System.out.println(e.getMessage());
        }
    }

    private static String handle(String value) {
        if (value.equals("broken")) {
            throw new IllegalArgumentException("unknown order");
        }
        return """
            order
              %s
            """.formatted(value);
    }

    void deliver() throws IOException {
        Channel channel = new Channel();
        DeliverCallback deliver = (tag, message) -> { System.out.println(new String(message.getBody())); };
        channel.basicConsume("mails", true, deliver, tag -> {});
        channel.deliver(new Delivery(Map.of("traceparent", PARENT), "mail".getBytes()));
        channel.basicConsume("mails", true, (tag, message) -> {
            String text = """
                {
                  "text": "%s"
                }
                """;
            System.out.print(text.formatted(new String(message.getBody())));
        }, tag -> {});
        channel.deliver(new Delivery(Map.of(), "mail".getBytes()));
        channel.basicConsume("mails", true, (tag, message) -> System.out.println(tag), tag -> {});
        channel.deliver(new Delivery(Map.of(), "mail".getBytes()));
    }

    @Override
    public void connectionLost(Throwable cause) {}

    @Override
    public void messageArrived(String topic, MqttMessage message) throws Exception {
        System.out.println(topic + " " + new String(message.getPayload()));
    }

    @Override
    public void onMessage(Message message) {
        System.out.println("message");
    }

    @WebServlet("/page")
    static class Page extends HttpServlet {
        @Override
        protected void doGet(HttpServletRequest request, HttpServletResponse response) throws IOException {
            response.setStatus(503);
            System.out.println(request.getMethod());
        }
    }

    static class Request implements HttpServletRequest {
        @Override
        public String getMethod() {
            return "GET";
        }

        @Override
        public String getScheme() {
            return "https";
        }

        @Override
        public String getHeader(String name) {
            return null;
        }
    }

    static class Response implements HttpServletResponse {
        private int status = 200;

        @Override
        public int getStatus() {
            return status;
        }

        @Override
        public void setStatus(int status) {
            this.status = status;
        }
    }
}
