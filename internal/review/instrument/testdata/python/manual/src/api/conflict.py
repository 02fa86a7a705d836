import sqlite3


def trace_query(connection: sqlite3.Connection):
    return connection.execute("SELECT 1")
