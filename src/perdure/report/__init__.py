"""Reports: tables, figures, one self-contained HTML page, and the live page."""
