package jakarta.jms;

public interface MessageListener {
    void onMessage(Message message);
}
