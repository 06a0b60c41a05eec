"""Console producer and consumer: Apache Kafka's, by kafka-python."""
