"""Authorization of requests: which operations a principal may perform."""
