"""S3 on the Python side: a request in, the engine's answer out.

`dispatch` is the application of S3 requests, `store` the engine as coroutines, `pending` who holds memory for bodies that
have not come whole. What S3 says (operations, headers, documents, signatures) is Rust's.
"""
