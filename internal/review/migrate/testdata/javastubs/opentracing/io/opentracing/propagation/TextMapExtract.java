package io.opentracing.propagation;

import java.util.Map;

public interface TextMapExtract extends Iterable<Map.Entry<String, String>> {}
