"""Temporary credentials: AWS STS over the identities. Nothing is stored of a session but the key that seals its token."""
