"""Stock clients in consumer groups, what they report, and the judge of it."""
