package org.eclipse.paho.client.mqttv3;

public class MqttClient {
    private MqttCallback callback;

    public void setCallback(MqttCallback callback) {
        this.callback = callback;
    }

    public void subscribe(String topic) {}

    public void deliver(String topic, String text) throws Exception {
        callback.messageArrived(topic, new MqttMessage(text.getBytes()));
    }
}
