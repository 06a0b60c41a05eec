"""The APIs, one module each: the `API` descriptor and the classes of its response; of requests too
where Kavka's controller sends them.

Responses are plain slotted objects with the schema's field names in snake case, since creating
the library's message objects costs more than the rest of a response. Received requests are the
library's objects; fields that their version lacks read as the schema's default.
"""
