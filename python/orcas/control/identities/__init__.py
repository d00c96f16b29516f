"""Identities: the rules of AWS IAM for users, groups, roles, policies and access keys, over `control.db`.

`service` is the way in: an action of AWS by name, its parameters and who calls, and AWS's answer as a dictionary. Must not
know HTTP, XML or the engine.
"""
