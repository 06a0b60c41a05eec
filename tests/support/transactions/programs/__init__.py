"""Programs that consume, transform and produce in transactions: see reporting.py."""
