"""HTTP/1.1 as Orcas serves it, and the interface between connections and the application.

`protocol` is a connection with its limits, `exchange` one request and its response, `streaming` the reading of a large body
without the `parsers`, `refusals` the answers to what never becomes an S3 request. `extensions` defines Orcas's ASGI
extensions, and `asgi` provides them on the connections of other servers. `tls` accepts connections with TLS and
`certificate` has what they show; `proxies` is what trusted proxies say of a request. `flow` pauses a connection, and
`status` has the lines with which responses begin. `signing` signs requests of Orcas itself. Must not know S3 or the
engine.
"""
