"""Pages for operators: the last hour, requests as they come, and the parts that run."""
