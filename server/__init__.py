"""Everything with a socket, a task or a thread, and the settings of the broker."""
