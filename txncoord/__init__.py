"""Rules of transactions: a state machine without I/O."""
