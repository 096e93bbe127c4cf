"""Rules that every program must follow for every input."""

import csv
import io
import json
import re

from tests.hostile.sandbox import Ended

# See docs/experiments.md and contract/record/exit_code.h.
RUNNER_STATUSES = (0, 1, 2, 130)
TRAINER_STATUSES = (0, 1, 2, 3, 4, 130)

ERROR_LIMIT_BYTES = 64 << 10  # in addition to quotes of the command line
CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")
SANITIZER = re.compile(rb"(?:Address|Leak|UndefinedBehavior|Thread)Sanitizer|: runtime error: ")
CRASH = re.compile(
    r"(?:signal|killed by) \d+|SIG(?:SEGV|ABRT|BUS|FPE|ILL)|Sanitizer|terminate called",
    re.IGNORECASE)


def problems(ended: Ended, statuses: tuple[int, ...], raw_output: bool = False,
             mute: bool = False) -> list[str]:
    """Returns the problems of a program's end and output."""
    found = []
    if ended.timed_out:
        return ["hangs"]
    if ended.status < 0:
        found.append(f"ended by signal {-ended.status}")
    elif ended.status not in statuses:
        found.append(f"exit status {ended.status} is not one of {statuses}")
    if SANITIZER.search(ended.errors):
        found.append("a sanitizer's report")
    # A sweep's JSON and doctor explain failures on standard output.
    said = ended.errors or b'"kind":"report"' in ended.output or b"missing  " in ended.output
    if ended.status != 0 and not (said or mute):
        found.append(f"exit status {ended.status} without a word on stderr")
    if len(ended.errors) > ERROR_LIMIT_BYTES + sum(map(len, ended.command)):
        found.append(f"{len(ended.errors)} bytes on stderr")
    if ended.left_behind:
        found.append(f"left behind: {ended.left_behind}")
    found += hostile_text("stderr", ended.errors)
    if not raw_output:
        found += hostile_text("stdout", ended.output)
    return found


def hostile_text(stream: str, text: bytes) -> list[str]:
    """Returns why the text is not safe for a terminal. CR LF is allowed, because CSV has it."""
    try:
        raw = CONTROL.search(text.decode().replace("\r\n", "\n"))
    except UnicodeDecodeError as error:
        return [f"{stream} is not UTF-8 at byte {error.start}"]
    return [f"{stream} has the raw control character {raw[0]!r}"] if raw else []


def strict_json(text: str | bytes):
    """Raises ValueError for invalid JSON, including NaN, Infinity and repeated keys."""
    def no_constant(name: str):
        raise ValueError(f"{name} is no JSON")

    def no_repetition(pairs):
        object_ = dict(pairs)
        if len(object_) != len(pairs):
            raise ValueError("a key is there twice")
        return object_

    text = text.decode() if isinstance(text, bytes) else text
    return json.loads(text, parse_constant=no_constant, object_pairs_hook=no_repetition)


def csv_rows(text: str | bytes) -> list[list[str]]:
    """Raises ValueError if rows differ in their number of cells."""
    text = text.decode() if isinstance(text, bytes) else text
    csv.field_size_limit(1 << 30)
    rows = list(csv.reader(io.StringIO(text, newline=""), strict=True))
    for row in rows:
        if len(row) != len(rows[0]):
            raise ValueError(f"a row has {len(row)} cells, the heading {len(rows[0])}")
    return rows


def is_crash(reason: str | None) -> bool:
    """True if the reason of a run shows a crash of the trainer, not a refusal or a failure."""
    return bool(reason and CRASH.search(reason))
