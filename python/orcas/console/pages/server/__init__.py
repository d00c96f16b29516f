"""Pages about the server itself. Each needs the action of what it asks the admin API."""

from orcas.console.pages.server import (
    cluster,
    disk,
    events,
    health,
    keyring,
    live,
    logs,
    replication,
    requests,
    usage,
    work,
)

# In the order of the navigation.
MODULES = (health, cluster, live, requests, logs, events, replication, work, disk, usage, keyring)
