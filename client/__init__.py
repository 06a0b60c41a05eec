"""The client side of the protocol, for brokers that call each other and for tools: connections with
pipelined requests, version negotiation, timeouts and reconnecting."""
