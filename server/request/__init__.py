"""One request's context and statistics: also its log line, quotas and sliced responses."""
