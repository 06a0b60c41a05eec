"""Drivers of stock clients: each writes a sequence of records and reads partitions whole."""
