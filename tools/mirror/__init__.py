"""`kavka mirror`: copies topics and groups' offsets of one cluster to another, each record once."""
