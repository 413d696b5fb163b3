"""Opening, reading and appending files that other processes may hold or forge."""
