"""Every metric as a pure function of arrays."""
