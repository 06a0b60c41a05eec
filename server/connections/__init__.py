"""From a client's bytes to a handler's answer, and back."""
