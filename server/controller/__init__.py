"""The controller: creates and deletes topics, elects leaders, and notifies the brokers."""
