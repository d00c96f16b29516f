"""Commands for users, groups, roles, their access keys and their policies."""
