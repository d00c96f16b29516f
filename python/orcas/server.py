"""`Server`: Orcas as a child process of this one, for tests, notebooks and scripts."""


class Server:
    """A running server."""
