"""Events files, as torn disks, crashed ranks and other programs leave them.

The ranks of one run leave prepared files. A trainer only copies them, or a killed runner left them.
"""

import json
import pathlib

from tests.hostile import event_model, figures, odd
from tests.hostile.case import Case

RANKS = 2
STEPS = 6
TRAINER = """#!/bin/sh
# Called as a trainer: --spec FOLDER/run.yaml --attempt N
cp prepared/rank$RANK.jsonl "$(dirname "$2")/attempt-$4/events.rank$RANK.jsonl"
exit "$(cat prepared/status)"
"""
EXPERIMENT = """\
experiment: trial
base:
  train: {steps: %d, warmup_steps_excluded: 1}
  device: cpu
  data: {kind: tokens, train: sweep/tokens.npy, sequence_length: 16}
  evaluation: {every_steps: 3, fraction: 0.2}
  checkpoint: {every_steps: 3}
  batch: {size_per_rank: 2}
points:
  - {name: ddp, strategy: {kind: ddp, ranks: %d}}
""" % (STEPS, RANKS)


def attack(case: Case) -> None:
    sweep = case.take("sweep")
    case.write("experiment.yaml", EXPERIMENT)
    [attempt] = sweep.glob("results/runs/trial/*ddp-*/attempt-1")
    files = [attempt / f"events.rank{rank}.jsonl" for rank in range(RANKS)]
    contents = [file.read_bytes() for file in files]
    for _ in range(case.random.choice([1, 1, 1, 2])):
        rank = case.random.randrange(RANKS)
        contents[rank] = case.random.choice(MUTATIONS)(case, contents[rank])
    if case.random.random() < 0.6:
        results = case.work / "results"
        run_with_trainer_that_copies(case, contents)
    else:
        results = sweep / "results"
        continue_a_killed_runner(case, results, files, contents)
    if (results / "results.sqlite").exists():
        judge(case, results, contents)


def run_with_trainer_that_copies(case: Case, contents: list[bytes]) -> None:
    for rank, text in enumerate(contents):
        case.write(f"prepared/rank{rank}.jsonl", text)
    case.write("prepared/status", case.random.choice(["0", "0", "0", "0", "0", "0", "1", "3", "7"]))
    case.write("trainer.sh", TRAINER).chmod(0o755)
    case.fsdp_run("experiment.yaml", "--trainer", "./trainer.sh", may_change=("results",))


def continue_a_killed_runner(case: Case, results: pathlib.Path, files: list[pathlib.Path],
                             contents: list[bytes]) -> None:
    """Takes the end of the attempt away, and leaves an index that does not know the run."""
    (results / "results.sqlite").unlink()
    for file, text in zip(files, contents):
        file.write_bytes(text)
        for end in ("end.json", "verdict.json"):
            (file.parent / end).unlink(missing_ok=True)
    case.note("left by a runner that was killed")
    case.train("sweep/experiment.yaml", "--only", "ddp", results="sweep/results")


def judge(case: Case, results: pathlib.Path, contents: list[bytes]) -> None:
    figures.check_attempts(case, results)
    report = figures.check_report(case, results)
    for row in (report or {}).get("rows", []):
        if row["point"] == "ddp" and row["attempt"] == 1 and row["status"] == "finished":
            judge_finished(case, row, report["warnings"], contents)


def judge_finished(case: Case, row: dict, warnings: list[dict], contents: list[bytes]) -> None:
    """Checks that a finished row is whole, or says what is missing."""
    whole = all(event_model.is_whole(text, STEPS) for text in contents)
    if not whole and not row["reason"] and not any("line" in warning["text"]
                                                   for warning in warnings):
        case.fail(
            f"finished without a warning, but its events are not whole; {row['steps']} steps, "
            f"loss {row['loss_last']}")
    for name, kind in (("loss_last", "step"), ("validation_loss_last", "evaluation")):
        said = event_model.last(contents[0], kind, "loss")
        if whole and not figures.equal(row[name], said):
            case.fail(f"{name} is {row[name]}, its events say {said}")
    if whole and row["steps"] != STEPS:
        case.fail(f"its events are whole, but it has {row['steps']} steps")


def damage(case: Case, contents: bytes) -> bytes:
    return case.damaged(contents, "events")


def change_lines(case: Case, contents: bytes) -> bytes:
    lines = contents.split(b"\n")[:-1] or [b""]
    at, other = (case.random.randrange(len(lines)) for _ in range(2))
    change = case.random.choice([tear_line, repeat_line, exchange_lines, drop_lines, *[change_value] * 3,
                                 *[odd_line] * 2])
    change(case, lines, at, other)
    return b"".join(line + b"\n" for line in lines)


def tear_line(case: Case, lines: list[bytes], at: int, _: int) -> None:
    lines[at] = lines[at][:case.random.randrange(len(lines[at]) + 1)]
    case.note(f"line {at + 1} torn")


def repeat_line(case: Case, lines: list[bytes], at: int, _: int) -> None:
    case.note(f"line {at + 1} repeated")
    lines[at:at + 1] = [lines[at]] * case.random.choice([2, 3, 1000])


def exchange_lines(case: Case, lines: list[bytes], at: int, other: int) -> None:
    lines[at], lines[other] = lines[other], lines[at]
    case.note(f"lines {at + 1} and {other + 1} exchanged")


def drop_lines(case: Case, lines: list[bytes], at: int, _: int) -> None:
    case.note(f"lines from {at + 1} left out")
    del lines[at:at + case.random.choice([1, 1, 2, 100])]


def change_value(case: Case, lines: list[bytes], at: int, _: int) -> None:
    """Gives one member of one event an odd value, or removes it."""
    try:
        event = json.loads(lines[at])
        key = case.random.choice(list(event))
    except (ValueError, TypeError, IndexError):
        return
    if case.random.random() < 0.15:
        del event[key]
        case.note(f"line {at + 1} without {key}")
    else:
        event[key] = case.random.choice([odd.scalar, odd.number])(case.random)
        case.note(f"line {at + 1}: {key} = {str(event[key])[:80]}")
    lines[at] = odd.json_of(case.random, event)


def odd_line(case: Case, lines: list[bytes], at: int, _: int) -> None:
    """Inserts a line that is no event."""
    at += case.random.randrange(2)
    megabytes = case.random.choice([1, 1, 20, 100])
    line, what = case.random.choice([
        (b"", "empty line"),
        (b"\x00" * 100, "NULs"),
        (b"null", "null"),
        (b"[]", "list"),
        (b"{}", "object"),
        (b'{"kind":"step"}', "no numbers"),
        (b"\xff\xfe{}", "no UTF-8"),
        (b" " * 5000, "blanks"),
        (b'{"version":1,"kind":"unheard of","sequence":3,"time_unix_ms":0}', "unknown kind"),
        (b'{"version":99,"kind":"step","sequence":3,"time_unix_ms":0,"step":1}', "newer version"),
        (odd.nested(case.random).encode(), "deep list"),
        (odd.nested(case.random, '{"a":', "}").encode(), "deep object"),
        (b'{"version":1,"kind":"' + b"x" * (megabytes << 20) + b'"}', f"{megabytes} MiB"),
        (b'{"version":1,"kind":"run_failed","sequence":100,"time_unix_ms":1,"exit_code":3,'
         b'"reason":"\\u001b[2J\\nforged | row"}', "a failure with control characters"),
    ])
    case.note(f"{what} as line {at + 1}")
    lines.insert(at, line)


def no_last_line_feed(case: Case, contents: bytes) -> bytes:
    case.note("no last line feed")
    return contents.rstrip(b"\n")


MUTATIONS = (damage, damage, *[change_lines] * 9, no_last_line_feed)
