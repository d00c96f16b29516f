"""Texts for operators: log lines, refused requests, the access log, diagnostics of the engine.

`logs` has the format and rates of lines; `reports` the line for a refused request; `access` the file of the access log;
`diagnostics` the lines of the engine's threads. Must not know S3.
"""
