"""What tests may ask of a store in memory: faults, a clock that they set, a record of requests, and an empty store."""
