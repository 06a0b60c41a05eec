"""What several handlers share. It knows no handler."""
