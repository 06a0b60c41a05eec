"""Programs that are started, do one thing, and end."""
