import io.jaegertracing.Configuration;
import io.opentracing.util.GlobalTracer;

public class App {
    public static void main(String[] args) {
        GlobalTracer.registerIfAbsent(Configuration.fromEnv().withServiceName("auto").getTracer());
        GlobalTracer.get().buildSpan("work").start().finish();
    }
}
