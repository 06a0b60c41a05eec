"""Moving partitions to other brokers and log directories, for `kavka reassign-partitions`."""
