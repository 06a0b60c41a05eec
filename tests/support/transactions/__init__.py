"""Instances of a stock client that consume, transform and produce in transactions, and a judge."""
