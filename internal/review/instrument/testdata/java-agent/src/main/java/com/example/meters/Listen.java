package com.example.meters;

import com.google.cloud.pubsub.v1.AckReplyConsumer;
import com.google.cloud.pubsub.v1.MessageReceiver;
import com.google.pubsub.v1.PubsubMessage;
import org.eclipse.paho.client.mqttv3.*;
import org.neo4j.driver.Session;
import org.springframework.jdbc.core.JdbcTemplate;
import org.springframework.kafka.annotation.KafkaListener;
import org.springframework.scheduling.annotation.Scheduled;
import org.springframework.stereotype.Component;
import redis.clients.jedis.JedisPubSub;

import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;

@Component
class Listen implements MqttCallbackExtended {
    private final JdbcTemplate jdbc;
    private final Session session;

    Listen(JdbcTemplate jdbc, Session session) {
        this.jdbc = jdbc;
        this.session = session;
    }

    @KafkaListener(topics = "meters")
    void kafka(String value) {
        jdbc.update("INSERT INTO meters VALUES (?)", value);
    }

    @Scheduled(fixedRate = 1000)
    void sweep() {
        session.run("MATCH (m:Meter) DELETE m");
    }

    void start(MqttClient client, Registry registry) throws MqttException {
        client.setCallback(this);
        client.subscribe("meters/#", (topic, message) -> registry.add(topic));
        Executors.newScheduledThreadPool(1).scheduleWithFixedDelay(registry::sweep, 1, 1, TimeUnit.MINUTES);
    }

    @Override
    public void messageArrived(String topic, MqttMessage message) {
        jdbc.update("INSERT INTO meters VALUES (?)", topic);
    }

    static final MessageReceiver RECEIVER =
            (PubsubMessage message, AckReplyConsumer consumer) -> {
                // acknowledged at once
                consumer.ack();
            };

    static class Commands extends JedisPubSub {
        @Override
        public void onMessage(String channel, String message) {
            System.out.println(message);
        }
    }
}
