package org.eclipse.paho.client.mqttv3;

public record MqttMessage(byte[] getPayload) {}
