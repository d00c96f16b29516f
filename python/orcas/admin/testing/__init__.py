"""The interface of a store in memory for tests: faults, a clock that they set, a record of requests, and an empty
store."""
