"""What applications do on top of a client: programs that are a reader, a writer and an
administrator at once."""
