"""Commands about single buckets, and who uses how much."""
