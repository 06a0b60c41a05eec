"""This broker's copies of partitions: who leads them, what is committed, and the logs below."""
