"""This broker's view of its cluster: the metadata that the controller sends, and the configs and
features in the coordination tree.
"""
