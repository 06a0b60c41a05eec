"""Monitoring for operators: health, metrics, their HTTP pages, and the process's log."""
