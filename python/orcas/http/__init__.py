"""HTTP/1.1 as Orcas serves it, and how the application meets any connection.

`protocol` is a connection with its limits, `exchange` one request on it and its response, `streaming` a large body past the
`parsers`, `refusals` what never becomes a request of S3. `extensions` says what a connection and the application spare
each other, and `asgi` makes that of the standard messages of other servers. Must not know S3, nor the engine.
"""
