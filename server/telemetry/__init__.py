"""Metrics that clients push (KIP-714): what they are asked for, and what is kept of the answers."""
