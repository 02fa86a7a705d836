package jakarta.jms;

public class JMSException extends Exception {}
