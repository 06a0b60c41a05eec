"""`kavka tap`: a proxy that shows what passes between Kafka's clients and brokers."""
