package com.example.shop.orders;

import java.lang.reflect.InvocationHandler;
import java.lang.reflect.Proxy;

/** Stands for a database. */
public final class Fake {
    private Fake() {}

    public static java.sql.Connection connection() {
        return proxy(java.sql.Connection.class, new String[1]);
    }

    private static <T> T proxy(Class<T> type, String[] state) {
        InvocationHandler handler = (self, method, args) -> {
            switch (method.getName()) {
                case "prepareStatement":
                    return proxy(java.sql.PreparedStatement.class, new String[1]);
                case "createStatement":
                    return proxy(java.sql.Statement.class, new String[1]);
                case "setString":
                    state[0] = (String) args[1];
                    return null;
                case "executeQuery":
                    if ("none".equals(state[0])) {
                        throw new java.sql.SQLException("relation orders does not exist");
                    }
                    return proxy(java.sql.ResultSet.class, state);
                case "executeUpdate":
                    return 1;
                case "execute", "next":
                    return true;
                case "getString":
                    return "new " + state[0];
                default:
                    return null;
            }
        };
        return type.cast(Proxy.newProxyInstance(Fake.class.getClassLoader(), new Class<?>[] {type}, handler));
    }
}
