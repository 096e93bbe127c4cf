"""Chooses few of many test cases, so that every pair of values still occurs in one of them
(pairwise testing). This finds every fault that depends on one or two values. FSDP_RUN_FULL_PARITY=1
in the environment runs all cases."""

import os
from collections.abc import Iterable
from dataclasses import astuple, is_dataclass
from itertools import combinations, product

import pytest


def pairs_of(case) -> set:
    """Returns the pairs of values in a case, each value with its position. A case is a tuple or a
    dataclass. The values of a dataclass in a tuple count one by one."""
    parts = case if isinstance(case, tuple) else (case,)
    values = [astuple(part) if is_dataclass(part) else (part,) for part in parts]
    return set(combinations(enumerate(repr(value) for part in values for value in part), 2))


def pairwise(cases: Iterable) -> list:
    """Returns some of `cases`, in order, that together have every pair of values of all cases.
    Chooses greedily: each time the first case with the most missing pairs."""
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
    """Parametrizes a test like one `parametrize` per item of `values`, but runs only a pairwise
    cover."""
    return pytest.mark.parametrize(list(values), pairwise(product(*values.values())), ids=str)
