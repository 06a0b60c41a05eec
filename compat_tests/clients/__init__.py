"""The clients: how each is installed, and how its driver is started."""
