"""Client connections and the dispatch of their requests: also limits and fast paths."""
