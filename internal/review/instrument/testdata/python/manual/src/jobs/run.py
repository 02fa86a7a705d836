import sys
import sqlite3

sys.path.insert(0, "../lib")
sqlite3.connect("a.db").execute("SELECT 1")
