package io.opencensus.trace;

public final class AttributeValue {
    final Object value;

    private AttributeValue(Object value) {
        this.value = value;
    }

    public static AttributeValue stringAttributeValue(String stringValue) {
        return new AttributeValue(stringValue);
    }

    public static AttributeValue booleanAttributeValue(boolean booleanValue) {
        return new AttributeValue(booleanValue);
    }

    public static AttributeValue longAttributeValue(long longValue) {
        return new AttributeValue(longValue);
    }

    public static AttributeValue doubleAttributeValue(double doubleValue) {
        return new AttributeValue(doubleValue);
    }
}
