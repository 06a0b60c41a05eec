"""What this broker knows of its cluster: what the controller tells, topics and brokers, configs
and features as the tree has them.
"""
