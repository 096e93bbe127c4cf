"""Which of many cases are run: as few as have every pair of values, so that whatever goes wrong where
two of them meet is met. FSDP_RUN_FULL_PARITY=1 in the environment runs all cases."""

import os
from collections.abc import Iterable
from dataclasses import astuple, is_dataclass
from itertools import combinations, product

import pytest


def pairs_of(case) -> set:
    """Of the values of a tuple or dataclass, and of dataclasses in a tuple."""
    parts = case if isinstance(case, tuple) else (case,)
    values = [astuple(part) if is_dataclass(part) else (part,) for part in parts]
    return set(combinations(enumerate(repr(value) for part in values for value in part), 2))


def pairwise(cases: Iterable) -> list:
    """Those of `cases`, in their order, that have between them every pair of values that any case
    has: at each turn the first of those with most pairs that are missing."""
    cases = list(cases)
    if os.environ.get("FSDP_RUN_FULL_PARITY"):
        return cases
    pairs = [pairs_of(case) for case in cases]
    missing, kept = set().union(*pairs), []
    while missing:
        most = max(range(len(cases)), key=lambda case: len(pairs[case] & missing))
        kept.append(most)
        missing -= pairs[most]
    return [cases[case] for case in sorted(kept)]


def pairwise_product(**values: list):
    """What a `parametrize` for each of `values` would run, in a pairwise cover."""
    return pytest.mark.parametrize(list(values), pairwise(product(*values.values())), ids=str)
