package org.eclipse.paho.client.mqttv3;

public interface MqttCallback {
    void connectionLost(Throwable cause);

    void messageArrived(String topic, MqttMessage message) throws Exception;
}
