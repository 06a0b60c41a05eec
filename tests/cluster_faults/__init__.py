"""The fault run: a cluster of processes under load and faults, and the checker of what was seen."""
