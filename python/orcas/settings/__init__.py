"""Settings of a server and variables of AWS clients: the only readers of the environment.

`config` has all settings; `observability` those for metrics, traces and the access log; `values` reads and writes single
values; `clients` are the variables of AWS clients. Must not know FastAPI, uvicorn or Rust.
"""
