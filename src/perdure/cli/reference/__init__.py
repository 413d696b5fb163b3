"""Commands about names: what there is, what it means, and completing it in a shell."""
