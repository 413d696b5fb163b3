"""The live page: a read-only view of a folder of runs in a browser."""
