package jakarta.jms;

public interface Message {
    String getStringProperty(String name) throws JMSException;
}
