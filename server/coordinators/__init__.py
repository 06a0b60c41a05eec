"""The coordinators of groups and of transactions, and what runs their machines on logs."""
