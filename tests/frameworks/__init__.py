"""Runs inside other frameworks; what is not installed is skipped. `make test-frameworks`."""
