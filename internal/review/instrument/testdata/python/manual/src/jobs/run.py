import sqlite3
import sys

sys.path.insert(0, "../lib")


def clean():
    sqlite3.connect("a.db").execute("SELECT 1")
