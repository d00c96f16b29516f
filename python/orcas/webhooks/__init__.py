"""Webhooks: events of buckets, delivered to targets over HTTP.

`targets` reads who they are, `sending` delivers one event, `dead` keeps what could not be delivered, and `delivery` takes
events from the journal and decides what happens to them. Must not know S3 operations, notification documents or FastAPI.
"""
