package zipkin2.reporter.urlconnection;

import java.io.Closeable;

public final class URLConnectionSender implements Closeable {
    public static URLConnectionSender create(String endpoint) {
        return new URLConnectionSender();
    }

    @Override
    public void close() {}
}
