"""Commands that decide: check, freeze and flips."""
