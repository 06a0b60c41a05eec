"""The matrix as Markdown and as one page of HTML."""
