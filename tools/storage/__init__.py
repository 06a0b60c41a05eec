"""`kavka storage`: moves what a cluster knows between a log directory, ZooKeeper and a file."""
