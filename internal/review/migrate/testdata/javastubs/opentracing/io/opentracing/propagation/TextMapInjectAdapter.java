package io.opentracing.propagation;

import java.util.Map;

public class TextMapInjectAdapter extends TextMapAdapter {
    public TextMapInjectAdapter(Map<String, String> map) {
        super(map);
    }
}
