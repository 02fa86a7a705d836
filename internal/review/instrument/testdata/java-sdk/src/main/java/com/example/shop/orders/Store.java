package com.example.shop.orders;

import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;

public class Store {
    private static final String FIND = "SELECT id, state FROM orders WHERE id = ?";

    private final Connection connection;

    public Store(Connection connection) {
        this.connection = connection;
    }

    public String find(String id) throws SQLException {
        try (PreparedStatement statement = connection.prepareStatement(FIND)) {
            statement.setString(1, id);
            try (ResultSet rows = statement.executeQuery()) {
                return rows.next() ? rows.getString(2) : "none";
            }
        }
    }

    public long count() {
        try (Statement statement = connection.createStatement()) {
            long changed = statement.executeUpdate("UPDATE orders SET state = 'old' WHERE state = 'new'");
            String sql = "DELETE FROM orders";
            if (changed > 1) {
                sql += " WHERE state = 'old'";
            }
            statement.execute(sql); // a lambda cannot read the variable
            boolean rows = connection.prepareStatement("""
                    INSERT INTO audit (what)
                      SELECT 'count'
                    """).execute();
            return rows ? changed : -changed;
        } catch (SQLException e) {
            throw new IllegalStateException(e);
        }
    }
}
