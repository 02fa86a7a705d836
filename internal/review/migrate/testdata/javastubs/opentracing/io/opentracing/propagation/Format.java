package io.opentracing.propagation;

public interface Format<C> {
    final class Builtin<C> implements Format<C> {
        public static final Format<TextMap> TEXT_MAP = new Builtin<>();
        public static final Format<TextMapInject> TEXT_MAP_INJECT = new Builtin<>();
        public static final Format<TextMapExtract> TEXT_MAP_EXTRACT = new Builtin<>();
        public static final Format<TextMap> HTTP_HEADERS = new Builtin<>();

        private Builtin() {}
    }
}
