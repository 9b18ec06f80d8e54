"""`python -m benchmarks` (`make bench`): what Tacit costs, as ratios to plain references measured in the same run.

A ratio of two times that were taken in turns, best of several, says the same on a slow machine and on a fast one.
The references are in `references`: what one would write with NumPy and no more.
"""
