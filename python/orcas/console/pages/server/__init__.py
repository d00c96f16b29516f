"""Pages about the server itself. They need the root key, as the admin API does."""

from orcas.console.pages.server import disk, events, health, keyring, live, logs, requests, usage, work

# In the order of the navigation.
MODULES = (health, live, requests, logs, events, work, disk, usage, keyring)
