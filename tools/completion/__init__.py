"""Completion of the words of `kavka` and `kavka-NAME` in bash, zsh and fish."""
