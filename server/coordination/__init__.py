"""The coordination tree: ZooKeeper's semantics, in memory and on this broker's own disk."""
