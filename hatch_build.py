"""What the index shows of this project: its addresses, and the README with absolute links."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

# The target of a link or picture: neither an address nor a heading of the same page.
RELATIVE_TARGET = re.compile(r"(?<=\]\()(?![a-z]+:|#)([^)\s]+)(?=\))")


def with_absolute_links(markdown: str, repository: str) -> str:
    """Return Markdown whose relative links and pictures point into the repository."""

    def absolute(link: re.Match[str]) -> str:
        target = link[1]
        kind = "raw" if target.endswith((".png", ".svg")) else "blob"
        return f"{repository}/{kind}/HEAD/{target}"

    return RELATIVE_TARGET.sub(absolute, markdown)


class MetadataHook(MetadataHookInterface):
    """Derives the addresses and the README from one setting, `repository` in pyproject.toml."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Add `urls` and `readme` to the metadata of the project."""
        repository = self.config["repository"]
        metadata["urls"] = {
            "Repository": repository,
            "Documentation": f"{repository}/tree/HEAD/docs",
            "Changelog": f"{repository}/blob/HEAD/CHANGELOG.md",
            "Issues": f"{repository}/issues",
        }
        text = Path(self.root, "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {
            "content-type": "text/markdown",
            "text": with_absolute_links(text, repository),
        }
