"""ZooKeeper's znode tree: its semantics, Apache Kafka's layout in it, and the embedded files."""
