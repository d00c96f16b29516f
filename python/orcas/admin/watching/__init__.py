"""What operators watch: the last hour, requests as they come, and what runs."""
