package brave.sampler;

public abstract class Sampler {
    public static final Sampler ALWAYS_SAMPLE = of("const 1");
    public static final Sampler NEVER_SAMPLE = of("const 0");

    public static Sampler create(float probability) {
        return of("probabilistic " + probability);
    }

    private static Sampler of(String text) {
        return new Sampler() {
            @Override
            public String toString() {
                return text;
            }
        };
    }
}
