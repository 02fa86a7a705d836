import brave.Tracing;
import brave.sampler.Sampler;

class Main {
    public static void main(String[] args) {
        try (Tracing tracing = Tracing.newBuilder().sampler(Sampler.ALWAYS_SAMPLE).build()) {
            tracing.tracer().nextSpan().name("main").start().finish();
        }
    }
}
