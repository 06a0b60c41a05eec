"""What the broker runs on: clock, tasks, threads, processes, sockets, turns of the loop. It knows
nothing of Kafka.
"""
