package io.opentracing.propagation;

import java.util.Map;

public class TextMapExtractAdapter extends TextMapAdapter {
    public TextMapExtractAdapter(Map<String, String> map) {
        super(map);
    }
}
