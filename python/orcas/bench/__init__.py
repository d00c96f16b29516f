"""`orcas bench`: workloads as data, servers to run them on, the run itself, and how two servers compare.

The load comes from Rust (`orcas.engine.Load`); here is what surrounds it. Must not know the engine or the application: the
server under test is only ever reached over its socket, even if the benchmark has started it.
"""
