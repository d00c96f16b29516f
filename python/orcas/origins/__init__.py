"""Pull-through: objects that a bucket lacks are fetched from its origin, a bucket on another S3 server."""
