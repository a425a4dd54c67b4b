"""Benchmarks of labelgap against other libraries and against the limits of the machine."""
