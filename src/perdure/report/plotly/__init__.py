"""The plotting library of the pages: plotly.js, its bundle of scatter, bar and pie traces.

The package on PyPI has only the bundle of all traces, which is four times as large. This file is
`plotly-basic.min.js` of the npm package `plotly.js-basic-dist-min`, compressed and not changed;
its licence (MIT) is next to it. For another version, change VERSION, run `make plotly`, and copy
the checksum that it prints.
"""

from __future__ import annotations

from importlib.resources import files

__all__ = ["SHA256", "VERSION", "read_compressed_plotly"]

VERSION = "4.1.1"
SHA256 = "99784e3abfb07b142a15e521a439e6d9addceadb3f79553fd24c72774f0649ba"  # decompressed


def read_compressed_plotly() -> bytes:
    """Return the script, compressed with gzip."""
    return (files(__name__) / "plotly-basic.min.js.gz").read_bytes()
