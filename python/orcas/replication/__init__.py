"""Replication: what changes in a bucket is copied to a bucket at another server, as the rules of the bucket say."""
