"""For operators: health, metrics, the HTTP pages that serve them, and the process's log."""
