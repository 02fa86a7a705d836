package org.apache.kafka.clients.consumer;

import java.util.Map;
import org.apache.kafka.common.header.Header;

public record ConsumerRecord<K, V>(String topic, K key, V value, Map<String, byte[]> all) {
    public record Headers(Map<String, byte[]> all) {
        public Header lastHeader(String key) {
            byte[] value = all.get(key);
            return value == null ? null : () -> value;
        }
    }

    public Headers headers() {
        return new Headers(all);
    }
}
