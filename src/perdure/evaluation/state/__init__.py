"""The state of models and of random generators: finding, copying and restoring it."""
