"""What each API is: one module an API, its `API` descriptor and the shapes of its answer.

Answers are plain slotted objects with the schema's field names in snake case, since making the
library's own message objects costs more than all the rest of an answer. Requests are the
library's objects; fields that their version lacks read as the schema's default.
"""
