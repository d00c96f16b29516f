"""Imports: objects of another S3 server, or files of a directory, copied into a store."""
