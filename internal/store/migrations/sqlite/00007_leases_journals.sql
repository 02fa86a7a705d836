-- What replicas need to work for one store: who does what, and what the memory
-- of one of them would lose if it were killed.

-- +goose Up

CREATE TABLE leases (
    name       TEXT    PRIMARY KEY,
    holder     TEXT    NOT NULL,
    expires_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE journals (
    name TEXT    NOT NULL,
    seq  INTEGER NOT NULL,
    data BLOB    NOT NULL,
    PRIMARY KEY (name, seq)
) STRICT;

-- The oldest version whose programs can work on the store. A migration that those
-- cannot work with raises it to its own version.
INSERT INTO memory (name, value) VALUES ('compatible_since', 7);
