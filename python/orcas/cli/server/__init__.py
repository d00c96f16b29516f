"""Commands that start a server, find it, watch it or measure it."""
