"""A chart on an open page: where its points are, and what a mouse does to it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

__all__ = ["Chart"]


class Chart:
    """The chart in the element with this id."""

    def __init__(self, page: Page, id_: str) -> None:
        self.page, self.id = page, id_
        self._await_mouse()

    def _await_mouse(self) -> None:
        """Wait until the mouse is where it is moved to: on a new page it may still be at (0, 0)."""
        for _ in range(200):
            self.page.mouse.move(*self.pixel(0.5, 0.5))
            if self.page.locator(f"#{self.id}:hover").count():
                break
            self.page.wait_for_timeout(20)
        else:
            raise AssertionError("the mouse does not reach the chart")
        self.page.mouse.move(1, 1)

    def find(self, css: str) -> Locator:
        return self.page.locator(f"#{self.id} {css}")

    def ask(self, expression: str) -> Any:
        """Return what an expression of `plot` is."""
        return self.page.evaluate(
            f"() => {{ const plot = document.getElementById('{self.id}').plot;"
            f" return {expression}; }}"
        )

    def ranges(self) -> tuple[list[float], list[float]]:
        found = self.ask("plot.ranges")
        return found["x"], found["y"]

    def area(self) -> dict[str, float]:
        """Return the box that the axes enclose, after the page has scrolled to it."""
        self.find(".drawing").scroll_into_view_if_needed()  # it stays when it is drawn again
        box: dict[str, float] = self.find(".ground").evaluate(
            "ground => { const { x, y, width, height } = ground.getBoundingClientRect();"
            " return { x, y, width, height }; }"
        )
        return box

    def pixel(self, across: float, up: float) -> tuple[float, float]:
        """Return the pixel of a share of the axes, from their corner at the bottom left."""
        box = self.area()
        return box["x"] + across * box["width"], box["y"] + (1 - up) * box["height"]

    def pixel_of(self, x: float, y: float) -> tuple[float, float]:
        """Return the pixel where a point of the data belongs."""
        (left, right), (low, high) = self.ranges()
        return self.pixel((x - left) / (right - left), (y - low) / (high - low))

    def drag(self, start: tuple[float, float], end: tuple[float, float]) -> None:
        self.press(start, end)
        self.page.mouse.up()

    def press(self, start: tuple[float, float], end: tuple[float, float]) -> None:
        """Drag without letting go."""
        self.page.mouse.move(*self.pixel(*start))
        self.page.mouse.down()
        for part in (0.5, 1.0):
            at = (a + part * (b - a) for a, b in zip(start, end, strict=True))
            self.page.mouse.move(*self.pixel(*at))

    def double_click(self) -> None:
        self.page.mouse.dblclick(*self.pixel(0.5, 0.5))

    def hover(self, x: float, y: float) -> None:
        """Move the mouse to a point of the data."""
        self.page.mouse.move(*self.pixel_of(x, y))

    def strokes(self) -> list[str]:
        """Return the colours of the lines, in order."""
        every: list[str] = self.find(".curve").evaluate_all(
            "all => all.map((line) => getComputedStyle(line).stroke)"
        )
        return list(dict.fromkeys(every))
