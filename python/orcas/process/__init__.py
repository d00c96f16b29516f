"""What a process of Orcas asks of its system, whichever command it runs: open files, a directory in memory, its end."""
