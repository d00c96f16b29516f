//! The statements as text.

/// Of tables, in the head.
pub(super) const FORMAT: i32 = 1;

pub(super) struct Sql {
    pub(super) create: String,
    pub(super) store: String,
    pub(super) read_head: String,
    pub(super) look: String,
    pub(super) append: String,
    pub(super) confirm: String,
    pub(super) take: String,
    pub(super) read: String,
    pub(super) change: String,
    pub(super) remove: String,
}

impl Sql {
    /// `log` is a name that needs no quotes.
    pub(super) fn new(log: &str) -> Self {
        let head = "format, term, owner, next, last, changes, floor, snapshots";
        Self {
            create: format!(
                "CREATE TABLE {log}_head (
                    id int PRIMARY KEY CHECK (id = 1), format int NOT NULL, term int8 NOT NULL, owner bytea NOT NULL,
                    next int8 NOT NULL, last bytea, changes int8 NOT NULL, floor int8 NOT NULL, snapshots text NOT NULL
                );
                CREATE TABLE {log}_log (
                    position int8 PRIMARY KEY, id bytea NOT NULL, term int8 NOT NULL, previous bytea,
                    batch bytea NOT NULL
                );
                INSERT INTO {log}_head
                VALUES (1, {FORMAT}, 0, decode(repeat('00', 16), 'hex'), 0, NULL, 0, 0, '[]');"
            ),
            // Batches are not compressed a second time.
            store: format!("ALTER TABLE {log}_log ALTER COLUMN batch SET STORAGE EXTERNAL"),
            read_head: format!("SELECT {head} FROM {log}_head"),
            look: format!("UPDATE {log}_head SET next = next RETURNING {head}"),
            append: format!(
                "WITH h AS (
                    UPDATE {log}_head SET next = $1 + 1, last = $2 WHERE term = $3 AND next = $1 RETURNING {head}
                ), i AS (
                    INSERT INTO {log}_log (position, id, term, previous, batch) SELECT $1, $2, $3, $4, $5 FROM h
                ) SELECT {head} FROM h"
            ),
            confirm: format!(
                "UPDATE {log}_head SET next = next
                WHERE EXISTS (SELECT 1 FROM {log}_log WHERE position = $1 AND id = $2) RETURNING {head}"
            ),
            take: format!(
                "UPDATE {log}_head SET term = $1 + 1, owner = $2
                WHERE term = $1 OR (term = $1 + 1 AND owner = $2) RETURNING {head}"
            ),
            read: format!(
                "SELECT id, term, previous, batch FROM {log}_log WHERE position >= $1 AND position < $2
                ORDER BY position LIMIT 16"
            ),
            change: format!(
                "UPDATE {log}_head SET changes = $2, floor = $3, snapshots = $4
                WHERE term = $1 AND changes IN ($2 - 1, $2) RETURNING {head}"
            ),
            remove: format!(
                "WITH d AS (
                    DELETE FROM {log}_log WHERE position IN (
                        SELECT position FROM {log}_log WHERE position < $1 ORDER BY position LIMIT 1000
                    ) RETURNING 1
                ) SELECT count(*) FROM d"
            ),
        }
    }
}
