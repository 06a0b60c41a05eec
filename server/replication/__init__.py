"""Replication: fetchers of the partitions that this broker follows, and proposals of ISRs."""
