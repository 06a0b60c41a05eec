"""Rules of consumer groups and their offsets: state machines without I/O."""
