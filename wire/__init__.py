"""Bytes to typed messages and back: framing, headers, messages, record batches, error codes."""
