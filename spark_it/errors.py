"""What goes wrong around Spark, said so that the user knows what to do."""


class SparkError(Exception):
    """A pipeline or a session that cannot go on. The text is for the user and says what to do."""
