"""Objects to files and back, from bucket to bucket, and away: what `orcas cp`, `ls`, `rm` and the like do."""
