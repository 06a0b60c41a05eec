"""One module a pipeline: SUMMARY, a line; Options, its options; run, which does it."""
