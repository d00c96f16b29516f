"""The place of a LocalStack: its variables, its paths beside those of AWS, and its init scripts.

What stands here translates, and nothing else: settings and services are those of Orcas.
"""
