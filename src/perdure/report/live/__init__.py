"""The live page: a folder of runs as it stands, read-only, in a browser."""
