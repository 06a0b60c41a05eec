"""Programs with consumers in groups, started as processes of their own: see reporting.py."""
