"""Code shared by several handlers. It imports no handler."""
