"""Tools that administer a cluster over the public protocol: Kavka's or Apache Kafka's."""
