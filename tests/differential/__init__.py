"""The differential test: the same requests to Kavka and to Apache Kafka, the answers compared."""
