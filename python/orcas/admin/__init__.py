"""FastAPI routers under `/_orcas/`. Must not know S3 operations or the engine's internals."""
