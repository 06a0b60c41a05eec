"""The consumer protocol: the coordinator assigns partitions (KIP-848)."""
