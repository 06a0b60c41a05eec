"""`kavka dump-log`: what the files of a log directory hold, as Apache Kafka's kafka-dump-log."""
