"""Pages of the console, one module for each subject.

A module exports `ROUTES`, and, as far as it has any, `PLACES` for the navigation and `TABS` for the pages of a bucket;
`orcas.console.app` collects them.
"""
