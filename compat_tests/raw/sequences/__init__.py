"""Scripts of several members of groups; those of one API lie in its table in `cases` as well."""
