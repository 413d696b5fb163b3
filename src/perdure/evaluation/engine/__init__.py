"""How an evaluation is executed: inline, in a CUDA graph, on a side stream, or in a worker."""
