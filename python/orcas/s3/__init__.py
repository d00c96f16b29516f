"""S3 on the Python side: a request in, the engine's answer out.

`dispatch` is the application of S3 requests, `store` the engine as coroutines, and `pending` limits the memory of bodies
that are still incomplete. The rules of S3 (operations, headers, documents, signatures) are in Rust.
"""
