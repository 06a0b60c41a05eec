"""The coordination service of a broker without ZooKeeper, and how a broker registers in it."""
