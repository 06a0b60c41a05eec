"""The controller: creates and deletes topics, elects leaders, and tells the brokers."""
