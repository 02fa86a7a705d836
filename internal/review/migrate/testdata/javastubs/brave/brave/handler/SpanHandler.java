package brave.handler;

public abstract class SpanHandler {}
