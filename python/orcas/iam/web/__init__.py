"""Web identities: tokens of OpenID Connect, and the keys that verify them."""
