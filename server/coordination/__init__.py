"""Sessions with the coordination service: a ZooKeeper, or the broker's own on its disk."""
