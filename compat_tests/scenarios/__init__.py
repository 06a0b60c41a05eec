"""The scenarios, one idea a file; `every.py` has them all in the order of the matrix."""
