"""Log compaction: keeps only the last record of each key, as Apache Kafka's log cleaner does.

`candidates` determines how dirty a log is and up to where it may be cleaned. `run` does the work in
a separate process: it builds a map of the last offset of each key in the dirty part (`offset_map`),
rewrites closed segments without superseded records (`grouping`, `filtering`, `cleaned`), and
reports each group when it is complete and flushed. `swap` then replaces the old segments. Offsets
never change, and a crash at any moment leaves either the old segments or the new ones.
"""
