"""What the broker runs on: clock, tasks, threads, child processes, sockets, cooperative slices. It
knows nothing of Kafka.
"""
