"""Requests and records as bytes, made by kafka-python's published codec, and not by Kavka's."""
