"""The classic protocol: members join, the leader among them assigns (KIP-62, KIP-345, KIP-394)."""
