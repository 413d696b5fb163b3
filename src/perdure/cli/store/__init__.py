"""Commands over a store, which is a folder of runs."""
