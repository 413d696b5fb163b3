"""The functions behind `import perdure`: score, compare and run in one call."""
