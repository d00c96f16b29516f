"""The tables of identities in `control.db`, and the steps from earlier schemas."""

from __future__ import annotations

from typing import Final

SCHEMA_VERSION: Final = 5

_ORIGINS: Final = """
CREATE TABLE origins (
    bucket TEXT PRIMARY KEY, details TEXT NOT NULL, nonce BLOB NOT NULL, secret BLOB NOT NULL
) STRICT, WITHOUT ROWID;
"""

# Of the rows of each holder: see `control/digests.py`.
_DIGESTS: Final = """
CREATE TABLE digests (id TEXT PRIMARY KEY, digest BLOB NOT NULL) STRICT, WITHOUT ROWID;
"""

_ADDED: Final = f"""
CREATE TABLE limits (
    id TEXT PRIMARY KEY, requests_per_sec INTEGER NOT NULL, bytes_per_sec INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE audit (
    id INTEGER PRIMARY KEY CHECK (id = 1), sequence INTEGER NOT NULL, digest TEXT NOT NULL
) STRICT;
CREATE TABLE session_keys (
    id TEXT PRIMARY KEY, nonce BLOB NOT NULL, secret BLOB NOT NULL, created_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
{_ORIGINS}{_DIGESTS}"""

# `entities`: users, groups, roles and managed policies. `documents`: inline policies by name, versions of managed policies.
# `members`: groups and users. `access_keys`: those without a user belong to the root of the account. `limits`: of users by
# id, and of access keys. `audit`: the chain head of the audit log. `session_keys`: those that digest tokens of sessions.
# `origins`: those of buckets, with the secret of a key.
SCHEMA: Final = f"""
CREATE TABLE accounts (
    id TEXT PRIMARY KEY, number TEXT NOT NULL UNIQUE, name TEXT NOT NULL UNIQUE, created_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE entities (
    id TEXT PRIMARY KEY, account TEXT NOT NULL REFERENCES accounts (id), kind TEXT NOT NULL, name TEXT NOT NULL,
    path TEXT NOT NULL, created_ms INTEGER NOT NULL, boundary TEXT, details TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX entities_by_name ON entities (account, kind, name COLLATE NOCASE);
CREATE INDEX entities_by_boundary ON entities (boundary) WHERE boundary IS NOT NULL;
CREATE TABLE tags (
    entity TEXT NOT NULL REFERENCES entities (id) ON DELETE CASCADE, name TEXT NOT NULL COLLATE NOCASE, value TEXT NOT NULL,
    PRIMARY KEY (entity, name)
) STRICT, WITHOUT ROWID;
CREATE TABLE documents (
    entity TEXT NOT NULL REFERENCES entities (id) ON DELETE CASCADE, name TEXT NOT NULL, document TEXT NOT NULL,
    created_ms INTEGER NOT NULL, PRIMARY KEY (entity, name)
) STRICT, WITHOUT ROWID;
CREATE TABLE attachments (
    entity TEXT NOT NULL REFERENCES entities (id) ON DELETE CASCADE, policy TEXT NOT NULL, PRIMARY KEY (entity, policy)
) STRICT, WITHOUT ROWID;
CREATE INDEX attachments_by_policy ON attachments (policy);
CREATE TABLE members (
    team TEXT NOT NULL REFERENCES entities (id) ON DELETE CASCADE,
    user TEXT NOT NULL REFERENCES entities (id) ON DELETE CASCADE, PRIMARY KEY (team, user)
) STRICT, WITHOUT ROWID;
CREATE INDEX members_by_user ON members (user);
CREATE TABLE access_keys (
    access_key TEXT PRIMARY KEY, account TEXT NOT NULL REFERENCES accounts (id),
    user TEXT REFERENCES entities (id) ON DELETE CASCADE, nonce BLOB NOT NULL, secret BLOB NOT NULL,
    created_ms INTEGER NOT NULL, active INTEGER NOT NULL, session_policy TEXT, used_ms INTEGER
) STRICT, WITHOUT ROWID;
CREATE INDEX access_keys_by_owner ON access_keys (account, user);
{_ADDED}"""

# Schema 1 had the root alone.
FROM_ONE: Final = f"""
ALTER TABLE access_keys RENAME TO former_keys;
{SCHEMA}
INSERT INTO accounts SELECT id, account_number(id), name, created_ms FROM identities;
INSERT INTO access_keys
    SELECT access_key, identity, NULL, nonce, secret, created_ms, 1, NULL, NULL FROM former_keys;
DROP TABLE former_keys;
DROP TABLE identities;
"""

# By the schema that was there. Schema 2 had no limits, no audit log and no sessions, schema 3 no origins, schema 4 no
# digests.
STEPS: Final = {0: SCHEMA, 1: FROM_ONE, 2: _ADDED, 3: f"{_ORIGINS}{_DIGESTS}", 4: _DIGESTS}

_OF_ACCOUNTS: Final = """SELECT access_key, coalesce(user, account) AS owner, nonce, secret,
    user IS NULL AND account IN (SELECT id FROM accounts WHERE name = 'root') AS is_root FROM access_keys"""
_OF_SESSIONS: Final = f"{_OF_ACCOUNTS} UNION ALL SELECT id, 'session', nonce, secret, 0 FROM session_keys"
# What owns the secrets of origins.
ORIGIN: Final = "origin"
_OF_ORIGINS: Final = f"{_OF_SESSIONS} UNION ALL SELECT bucket, '{ORIGIN}', nonce, secret, 0 FROM origins"
# By schema, because tools read databases that no server has opened since. Access key, owner, nonce, secret, and whether it
# is the key of root.
STORED_KEYS: Final = {
    1: """SELECT access_key, identity AS owner, nonce, secret, identity IN (SELECT id FROM identities WHERE name = 'root')
        AS is_root FROM access_keys""",
    2: _OF_ACCOUNTS,
    3: _OF_SESSIONS,
    4: _OF_ORIGINS,
    5: _OF_ORIGINS,
}
STORED_OWNERS: Final = {
    1: "SELECT 1 FROM identities WHERE id = ?",
    2: "SELECT 1 FROM accounts WHERE id = ?",
    3: "SELECT 1 FROM accounts WHERE id = ?",
    4: "SELECT 1 FROM accounts WHERE id = ?",
    5: "SELECT 1 FROM accounts WHERE id = ?",
}
