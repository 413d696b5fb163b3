"""The state of a model and of random generators: found, copied and restored."""
