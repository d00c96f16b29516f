"""A node of a cluster: it follows a log that several nodes share, and owns the store when it has taken the log.

What the owner does to its files goes to the log before anything is acknowledged, and every other node does the same to its
own. So each node has the whole store. A node whose term is over closes the store and follows again, from what its files
have for sure. Must not know S3.
"""
