"""Single examples of evaluation data: how they are read, and how they form a batch."""
