"""Stock clients in consumer groups, what they tell, and the judge of it."""
