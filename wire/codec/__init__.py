"""Requests and responses as bytes, by kafka-python's schemas."""
