"""Metrics that clients push (KIP-714): the subscriptions, and the received series."""
