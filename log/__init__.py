"""One partition on disk, in Apache Kafka's format. Synchronous; no tasks, no sockets."""
