"""A network that doubles, reorders and loses Produce requests, and what a log must show of it."""
