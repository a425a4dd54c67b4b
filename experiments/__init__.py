"""Experiments: each one command, mean and spread over draws."""
