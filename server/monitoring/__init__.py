"""What operators see: health, metrics, the pages that serve them, the process's log."""
