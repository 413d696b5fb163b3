"""What figures share: sizes, panels, legends, cells, and lines after each task."""
