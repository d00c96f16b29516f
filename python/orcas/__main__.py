"""`python -m orcas` is `orcas`."""

from orcas.cli import main

main()
