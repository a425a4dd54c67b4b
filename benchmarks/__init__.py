"""Benchmarks: each file is one command that prints its numbers."""
