"""Compaction: of each key only the last record stays, as Apache Kafka's log cleaner has it.

`candidates` says which log is dirtiest and up to where it may be cleaned. `run` does the work, in
a process of its own: it notes the last offset of each key of the dirty part (`offset_map`), writes
closed segments anew without what is superseded (`grouping`, `filtering`, `cleaned`), and tells of
each group when it is whole and on the disk. `swap` puts it in the place of what it replaces.
Offsets never change, and a crash at any moment leaves the old segments or the new one.
"""
