"""What `kavka doctor DIRECTORY` checks in log directories at rest. Nothing there is changed."""
