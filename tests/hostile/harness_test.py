"""Tests the harness itself: what it must notice, and that seed and number reproduce a case."""

import pathlib

import pytest

from tests.hostile import event_model, oracle, run, snapshot
from tests.hostile.case import Case, Programs

PROGRAMS = Programs("/bin/sh", "/bin/sh", "/bin/sh", sanitized=False)


@pytest.fixture
def case(tmp_path: pathlib.Path) -> Case:
    return Case(1, 1, "events", tmp_path / "case", PROGRAMS, tmp_path)


@pytest.mark.parametrize("script, complaint", [
    ("kill -SEGV $$", "ended by signal 11"),
    ("echo no >&2; exit 77", "exit status 77"),
    ("exit 2", "without a word"),
    ("printf 'a\\033[2J'", "raw control character"),
    ("printf '\\377'", "not UTF-8"),
    ("printf 'a\\302\\205b' >&2", "raw control character"),
    ("echo 'x.cpp:1:2: runtime error: signed integer overflow' >&2; exit 1", "sanitizer"),
    ("head -c 100000 /dev/zero | tr '\\0' x >&2; exit 1", "bytes on stderr"),
    ("echo mine > precious", "work/precious"),
    ("rm ../home/precious", "home/precious"),
    ("chmod 600 precious", "work/precious"),
    ("sleep 30 & exit 0", "left behind"),
])
def test_what_must_not_be_is_noticed(case: Case, script: str, complaint: str) -> None:
    case.run(["/bin/sh", "-c", script])
    assert any(complaint in failure for failure in case.failures), case.failures


def test_a_program_that_does_not_end_is_ended(case: Case, monkeypatch) -> None:
    monkeypatch.setattr(Programs, "limit_s", 0.2)
    case.run(["/bin/sh", "-c", "sleep 60"])
    assert case.failures[0].startswith("hangs")


def test_what_may_be_is_no_failure(case: Case) -> None:
    case.run(
        ["/bin/sh", "-c", "echo 'fine: ü'; mkdir results; echo x > results/a; echo >&2; exit 2"],
        may_change=("results",))
    assert case.failures == []


def test_a_case_follows_from_seed_and_number(tmp_path: pathlib.Path) -> None:
    def numbers(seed: int, number: int) -> list[float]:
        folder = tmp_path / f"{seed}-{number}-{len(list(tmp_path.iterdir()))}"
        made = Case(seed, number, run.kind_of(number), folder, PROGRAMS, tmp_path)
        return [made.random.random() for _ in range(3)]

    assert numbers(1, 5) == numbers(1, 5)
    assert numbers(1, 5) != numbers(2, 5)
    assert numbers(1, 5) != numbers(1, 14)


def test_json_that_is_none_is_refused() -> None:
    for text in ('{"a": NaN}', '{"a": Infinity}', '{"a": 1, "a": 2}', "{", b"\xff"):
        with pytest.raises(ValueError):
            oracle.strict_json(text)
    with pytest.raises(ValueError):
        oracle.csv_rows("a,b\n1\n")


def test_a_link_is_not_followed(tmp_path: pathlib.Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "link").symlink_to(tmp_path)
    assert list(snapshot.take(tmp_path / "folder")) == ["link"]


STEP = (b'{"version":1,"kind":"step","sequence":%d,"time_unix_ms":1,"step":%d,"loss":1.5,'
        b'"step_time_ms":1,"tokens":1,"unpadded_tokens":1,"label_count":1,"learning_rate":1,'
        b'"memory_allocated_bytes_forward":1,"memory_reserved_bytes_forward":1,'
        b'"memory_allocated_bytes_max":1,"memory_reserved_bytes_max":1}\n')
END = b'{"version":1,"kind":"run_finished","sequence":%d,"time_unix_ms":1,"steps":2}\n'


@pytest.mark.parametrize("contents, is_whole", [
    (STEP % (0, 1) + STEP % (1, 2) + END % 2, True),
    (STEP % (0, 1) + STEP % (0, 1) + STEP % (1, 2) + END % 2, True),
    (STEP % (0, 1) + END % 1, False),
    (STEP % (0, 1) + STEP % (2, 2) + END % 3, False),
    (STEP % (0, 1) + b"torn\n" + STEP % (1, 2) + END % 2, False),
    (STEP % (0, 1) + STEP % (1, 2), False),
    (STEP.replace(b"tokens", b"other") % (0, 1) + STEP % (1, 2) + END % 2, False),
    (STEP.replace(b"1.5", b"Infinity") % (0, 1) + STEP % (1, 2) + END % 2, False),
])
def test_whole_events_are_told_from_others(contents: bytes, is_whole: bool) -> None:
    assert event_model.is_whole(contents, 2) == is_whole
