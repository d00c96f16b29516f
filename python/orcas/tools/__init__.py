"""The work of the operator's commands: backup, restore, export, and how they reach a store, running or not.

Everything goes through requests that the root identity signs, over a socket to a running server or straight into an
application in this process; so each tool is written once. Must not know the engine's internals.
"""
