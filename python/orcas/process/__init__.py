"""The needs of an Orcas process: the limit of open files, a directory in memory, and exit codes."""
