"""Letters of significance, judged pair by pair and letter by letter."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from perdure.stats import significance_letters

from .references import some

# Here a letter that was given early is superfluous once the others are.
SIX = [f"m{k}" for k in range(6)]
SWEPT = {("m0", "m3"), ("m1", "m5"), ("m2", "m4"), ("m3", "m5"), ("m4", "m5")}


@st.composite
def relations(draw: st.DrawFn) -> tuple[list[str], set[tuple[str, str]]]:
    """Draw names, and which pairs of them differ."""
    names = [f"m{k}" for k in range(draw(st.integers(1, 8)))]
    pairs = list(combinations(names, 2))
    return names, set(draw(st.lists(st.sampled_from(pairs), unique=True)) if pairs else [])


def alike(letters: dict[str, set[str]]) -> set[tuple[str, str]]:
    return {(a, b) for a, b in combinations(letters, 2) if letters[a] & letters[b]}


@some
@given(relations())
@example((SIX, SWEPT))
def test_methods_share_a_letter_exactly_where_they_do_not_differ(
    relation: tuple[list[str], set[tuple[str, str]]],
) -> None:
    names, different = relation
    given_ = {name: set(text) for name, text in significance_letters(names, different).items()}
    assert list(given_) == names
    assert all(given_.values()), "a method without a letter"
    assert alike(given_) == set(combinations(names, 2)) - different
    used = set().union(*given_.values())
    assert used == set("abcdefghijklmnopqrstuvwxyz"[: len(used)])
    for letter in used:  # without it, somebody has none, or two that are alike share none
        less = {name: mine - {letter} for name, mine in given_.items()}
        assert not all(less.values()) or alike(less) != alike(given_), f"{letter} is superfluous"


@some
@given(relations())
def test_letters_come_in_the_order_of_the_names(
    relation: tuple[list[str], set[tuple[str, str]]],
) -> None:
    names, different = relation
    given_ = significance_letters(names, different)
    assert given_[names[0]].startswith("a")
    assert all(list(text) == sorted(text) for text in given_.values())
    firsts = [min(k for k, name in enumerate(names) if letter in given_[name])
              for letter in sorted(set("".join(given_.values())))]  # fmt: skip
    assert firsts == sorted(firsts)
    turned = {(b, a) for a, b in different}
    assert significance_letters(names, turned) == given_


def test_known_displays() -> None:
    names = ["er", "ewc", "lwf", "naive"]
    every = list(combinations(names, 2))
    assert set(significance_letters(names, []).values()) == {"a"}
    assert list(significance_letters(names, every).values()) == ["a", "b", "c", "d"]
    chain = [("er", "lwf"), ("er", "naive"), ("ewc", "naive")]
    assert list(significance_letters(names, chain).values()) == ["a", "ab", "bc", "c"]
    assert list(significance_letters(names, every[:3]).values()) == ["a", "b", "b", "b"]


def test_many_methods_and_more_letters_than_the_alphabet_has() -> None:
    names = [f"m{k}" for k in range(60)]
    given_ = significance_letters(names, combinations(names, 2))
    assert len(set(given_.values())) == 60
    assert (given_["m26"], given_["m52"]) == ("A", "(53)")
    # Pairs of opposites: of 2^30 largest sets without a difference, a few will do.
    opposites = [(f"m{k}", f"m{k + 1}") for k in range(0, 60, 2)]
    assert "(" not in "".join(significance_letters(names, opposites).values())


@pytest.mark.parametrize(
    ("names", "different", "word"),
    [(["a", "a"], [], "unique"), (["a"], [("a", "b")], "'b'"), (["a"], [("a", "a")], "itself")],
)
def test_mistakes(names: list[str], different: list[tuple[str, str]], word: str) -> None:
    with pytest.raises(ValueError, match=word):
        significance_letters(names, different)
