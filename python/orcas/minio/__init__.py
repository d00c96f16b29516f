"""The place of a MinIO server: its command line, its variables, and its paths beside S3.

What stands here translates, and nothing else: settings, health, metrics and buckets are those of Orcas.
"""
