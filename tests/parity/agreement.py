"""Checks that a run's figures are the expected ones. Shows a table of them if they are not."""

from trainer import TrainerRun


def table(name: str, expected: list[float], got: list[float], tolerance: float) -> str:
    lines = [f"{name} differs (relative tolerance {tolerance:g})"]
    lines.append(f"{'step':>4} {'expected':>14} {'got':>14} {'difference':>11}")
    for step, (want, have) in enumerate(zip(expected, got), start=1):
        difference = relative_difference(want, have)
        mark = "  <--" if difference > tolerance else ""
        shown = "none" if have is None else f"{have:.9g}"
        lines.append(f"{step:4} {want:14.9g} {shown:>14} {difference:11.1e}{mark}")
    return "\n".join(lines)


def relative_difference(expected: float, got: float | None) -> float:
    return float("inf") if got is None else abs(got - expected) / abs(expected)


def assert_close(name: str, expected: list[float], got: list[float], tolerance: float) -> None:
    assert len(got) == len(expected), f"{name}: {len(got)} steps instead of {len(expected)}"
    differences = [relative_difference(want, have) for want, have in zip(expected, got)]
    agrees = all(difference <= tolerance for difference in differences)
    assert agrees, table(name, expected, got, tolerance)


def assert_ranks_agree(run: TrainerRun) -> None:
    """Every rank must report equal numbers, because loss and norm are figures over all ranks."""
    for rank in range(1, len(run.steps)):
        for name in ("loss", "gradient_norm", "tokens", "label_count"):
            first = [step[name] for step in run.steps[0]]
            other = [step[name] for step in run.steps[rank]]
            assert other == first, f"{name}: rank {rank} reports {other}, rank 0 {first}"
