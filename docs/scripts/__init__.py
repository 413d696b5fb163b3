"""Builds the site from the Markdown of the repository: `make docs`."""
