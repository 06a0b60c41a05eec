"""The consumer protocol: members tell what they want, the coordinator assigns (KIP-848)."""
