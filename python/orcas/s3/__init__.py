"""S3 on the Python side: a request in, the engine's answer out.

`dispatch` is the application of S3 requests, and `store` the engine as coroutines. The rules of S3 (operations, headers,
documents, signatures) are in Rust.
"""
