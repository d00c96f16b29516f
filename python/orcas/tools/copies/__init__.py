"""Copies of a store: backups, their restore, and exports to plain files."""
