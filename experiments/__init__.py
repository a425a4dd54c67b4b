"""Experiments. Each is one command that prints the mean and standard deviation over random draws."""
