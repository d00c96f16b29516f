"""The web console, under `/_orcas/console/`: pages made by the server over the API of this server.

A page has no rights of its own: whatever it shows or does is a request that is signed with the key of the person who has
signed in, and is decided and logged as any other request (`orcas.console.calls`).
"""
