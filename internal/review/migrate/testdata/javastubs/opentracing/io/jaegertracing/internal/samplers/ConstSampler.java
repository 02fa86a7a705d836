package io.jaegertracing.internal.samplers;

public class ConstSampler {
    public static final String TYPE = "const";
}
