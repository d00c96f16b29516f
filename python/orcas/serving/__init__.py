"""The server: its parts put together (`app.py`), the listener in front of them (`front.py`), and `orcas serve`."""
