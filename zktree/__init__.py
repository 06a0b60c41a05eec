"""ZooKeeper's tree of nodes: its semantics, Apache Kafka's layout in it, and its files."""
