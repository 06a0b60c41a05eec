"""Brokers and clients in one process, on virtual time, from one seed: see docs/simulation.md."""
