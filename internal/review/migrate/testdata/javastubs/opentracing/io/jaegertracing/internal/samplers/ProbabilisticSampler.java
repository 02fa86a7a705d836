package io.jaegertracing.internal.samplers;

public class ProbabilisticSampler {
    public static final String TYPE = "probabilistic";
}
