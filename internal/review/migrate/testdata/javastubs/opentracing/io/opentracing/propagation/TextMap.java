package io.opentracing.propagation;

public interface TextMap extends TextMapInject, TextMapExtract {}
