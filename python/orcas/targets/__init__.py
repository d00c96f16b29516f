"""Targets of events: webhooks, topics of Kafka, streams of NATS JetStream, and services of AWS.

`file` reads who they are (`kinds`). `webhook` and `aws` send one message each (`sending`) over HTTP (`posting`), `kafka` and
`nats` over client libraries that are extras (`broker`). `dead` keeps what could not be delivered, and
`delivery` takes events from the journal and decides what happens to them. Must not know S3 operations, notification
documents or FastAPI.
"""
