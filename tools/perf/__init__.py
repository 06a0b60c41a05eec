"""Apache Kafka's perf tests and verifiable clients, by confluent-kafka."""
