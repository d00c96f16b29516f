"""What any Orcas process needs of the system: the limit of open files, a directory in memory, and exit codes."""
