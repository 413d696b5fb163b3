"""The state of a model and of random generators: found, clone_leaf and restored."""
