"""A certificate of the server by ACME (RFC 8555): ordered, kept in the data directory, and renewed.

The listener answers the challenge of the CA (TLS-ALPN-01), and takes what is written here like any other certificate whose
file changes. Must not know S3, the store or connections.
"""
