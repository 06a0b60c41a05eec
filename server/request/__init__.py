"""What is known of one request: who asks, how long it took, and answers that are written in
slices.
"""
