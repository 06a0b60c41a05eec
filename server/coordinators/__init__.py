"""The group and transaction coordinators, and the runner of their state machines on logs."""
