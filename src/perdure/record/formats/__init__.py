"""Parsers of the files of a run and of other tools: text or bytes in, arrays out."""
