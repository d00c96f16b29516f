"""Targets of events: webhooks, topics of Kafka, and streams of NATS JetStream.

`file` reads who they are (`kinds`). `webhook`, `kafka` and `nats` send one message each (`sending`), the last two over
client libraries that are extras (`broker`). `dead` keeps what could not be delivered, and `delivery` takes events from the
journal and decides what happens to them. Must not know S3 operations, notification documents or FastAPI.
"""
