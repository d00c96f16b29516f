"""Commands that look after a store as a whole."""
