package redis.clients.jedis;

public class Jedis {
    public String get(String key) {
        return key;
    }
}
