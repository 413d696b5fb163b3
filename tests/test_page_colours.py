"""Colours of the pages: readable in both themes, and told apart by people with any colour vision.

Contrast after WCAG 2.2; colour vision deficiencies after Machado, Oliveira and Fernandes 2009.
"""

from __future__ import annotations

import re
from importlib.resources import files
from itertools import combinations

import numpy as np
import pytest

from perdure.report.colours import HUES, colour_on_dark, sequential_colours, task_styles

VISION = {
    "normal": np.eye(3),
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216],
                   [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413],
                     [-0.011820, 0.042940, 0.968881]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602],
                   [0.004733, 0.691367, 0.303900]],
}  # fmt: skip
TO_XYZ = np.array([
    [0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750],
    [0.0193339, 0.1191920, 0.9503041],
]) / [[0.95047], [1.0], [1.08883]]  # fmt: skip

# Texts and what they stand on; lines and marks need less.
TEXTS = {
    "page/page.css": [("ink", "back"), ("soft", "back"), ("link", "back"), ("ink", "card"),
                      ("soft", "card")],
    "live/static/live.css": [
        (text, ground) for text in ("ink", "quiet", "accent") for ground in ("card", "soft", "grid")
    ] + [("ink", "ground"), ("failed", "card")],
}  # fmt: skip
MARKS = {
    "page/page.css": [],
    "live/static/live.css": [
        (mark, ground)
        for mark in ("running", "finished", "failed", "interrupted")
        for ground in ("card", "soft", "grid")
    ],
}


def linear(colour: str) -> np.ndarray:
    parts = np.array([int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)])
    return np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)


def contrast(one: str, other: str) -> float:
    low, high = sorted(float(linear(c) @ [0.2126, 0.7152, 0.0722]) for c in (one, other))
    return (high + 0.05) / (low + 0.05)


def difference(one: str, other: str, vision: str) -> float:
    """Return the CIE 1976 difference of two colours as people with this vision see them."""

    def lab(colour: str) -> np.ndarray:
        seen = TO_XYZ @ np.clip(np.asarray(VISION[vision]) @ linear(colour), 0, 1)
        f = np.where(seen > 0.008856, np.cbrt(seen), 7.787 * seen + 16 / 116)
        return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])

    return float(np.linalg.norm(lab(one) - lab(other)))


def themes(path: str) -> list[dict[str, str]]:
    """Return the colours of each block of variables: light first, then dark ones."""
    text = files("perdure.report").joinpath(path).read_text()
    blocks = [
        dict(re.findall(r"--(\w+): (#[0-9a-f]{6})", block))
        for block in re.findall(r":root[^{]*\{([^}]*)\}", text)
    ]
    return [block for block in blocks if len(block) > 3]


@pytest.mark.parametrize("path", TEXTS)
def test_text_and_marks_can_be_seen(path: str) -> None:
    found = themes(path)
    assert len(found) >= 2
    for theme in found:
        for text, ground in TEXTS[path]:
            if text in theme and ground in theme:
                assert contrast(theme[text], theme[ground]) >= 4.5, (text, ground, theme)
        for mark, ground in MARKS[path]:
            assert contrast(theme[mark], theme[ground]) >= 3, (mark, ground)


def test_dark_by_choice_is_dark_by_system() -> None:
    light, *dark = themes("live/static/live.css")
    assert len(dark) == 2
    assert dark[0] == dark[1]
    assert light.keys() == dark[0].keys()


@pytest.mark.parametrize("vision", VISION)
@pytest.mark.parametrize("dark", [False, True])
def test_twenty_tasks_can_be_told_apart(vision: str, dark: bool) -> None:
    for one, other in combinations(task_styles(20), 2):
        if one.dashes == other.dashes:
            pair = [colour_on_dark(s.colour) if dark else s.colour for s in (one, other)]
            assert difference(pair[0], pair[1], vision) > 15, (pair, vision)


def test_lines_stand_out_from_the_ground() -> None:
    light = [theme[0] for theme in map(themes, TEXTS)]
    dark = [theme[1] for theme in map(themes, TEXTS)]
    colours = [*HUES, *(style.colour for style in task_styles(20))]
    for colour in colours:
        for theme in light:
            assert contrast(colour, theme.get("card", "#ffffff")) > 2.8, colour
    for colour in [*colours, *sequential_colours(50)]:
        for theme in dark:
            assert contrast(colour_on_dark(colour), theme.get("back", theme["card"])) > 2.8, colour
