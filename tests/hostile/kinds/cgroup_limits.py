"""Cgroup files with odd contents. The available memory is the smallest limit that is a whole
number."""

import json
import os
import pathlib
import re

from tests.hostile import figures, odd
from tests.hostile.case import Case

FILES = ("memory.max", "memory.high", "memory.limit_in_bytes")
OTHER_FILES = ("memory.events", "memory.oom_control", "cpu.max", "cpu.cfs_quota_us", "cpu.cfs_period_us")
LIMITS_BYTES = (1, 4096, 100 << 20, 400 << 20, 1 << 30, 3 << 30, 1 << 40, 9223372036854771712, 2**63 - 1)
ENOUGH_BYTES = 50 << 20
NO_LIMITS = ("max", "", "\n", "-1", "-4096", "5M", "1e9", "0x100", "5.5", "1,000", "nan", "inf", "max 5", "\0", "\0005",
             str(2**63), str(2**64), "9" * 400, "\ufeff5", "٥", "5\x005")


def attack(case: Case) -> None:
    groups = case.work / "cgroups"
    make(case, groups)
    limit_bytes = memory_there_is(groups)
    case.take_training()
    with case.mounted() as mounts:
        mounts.call("mount --rbind $work/cgroups /sys/fs/cgroup")
        check_plan(case, limit_bytes)
        case.fsdp_run("doctor")
        if case.random.random() < 0.4:
            check_run(case, limit_bytes)


def folders() -> list[str]:
    """Returns the folders in which fsdp-run looks for memory limits, relative to the mount. They
    follow from this process's cgroups."""
    found = []
    for line in pathlib.Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, own = line.split(":", 2)
        if controllers and "memory" not in controllers.split(","):
            continue
        place = os.path.normpath(os.path.join(controllers or ".", own.lstrip("/")))
        while place not in ("", "."):
            found.append(place)
            place = os.path.dirname(place)
        found.append(".")
    return sorted(set(found))


def make(case: Case, groups: pathlib.Path) -> None:
    random = case.random
    for folder in folders():
        (groups / folder).mkdir(parents=True, exist_ok=True)
        for name in random.sample(FILES, random.randint(0, 3)):
            put(case, groups / folder / name, str(random.choice(LIMITS_BYTES)))
        for name in random.sample(OTHER_FILES, random.randint(0, 3)):
            put(case, groups / folder / name, random.choice(["oom 3", "oom_kill -1", "oom_kill 5x", "oom " * 1000]))
    if random.random() < 0.2:
        name = groups / random.choice(FILES + OTHER_FILES)
        name.unlink(missing_ok=True)
        name.mkdir()


def put(case: Case, file: pathlib.Path, text: str) -> None:
    contents = (text if case.random.random() < 0.5 else case.random.choice(NO_LIMITS)).encode()
    contents += case.random.choice([b"\n", b"\n", b"", b" 7\n"])
    if case.random.random() < 0.1:
        contents = odd.damaged(case.random, contents)[0]
    file.write_bytes(contents)
    case.note(f"{file.parent.name}/{file.name}: {contents[:30]!a}")


def memory_there_is(groups: pathlib.Path) -> int:
    """Returns the smallest limit that is a whole number, at most the host's memory, in bytes."""
    smallest = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    for file in (groups / folder / name for folder in folders() for name in FILES):
        words = file.read_bytes().split() if file.is_file() else []
        if words and re.fullmatch(rb"[0-9]+", words[0]) and int(words[0]) < 2**63:
            smallest = min(smallest, int(words[0]))
    return smallest


def check_plan(case: Case, limit_bytes: int) -> None:
    ended = case.fsdp_run("plan", "experiment.yaml", "--only", "full", "--format", "json", "--trainer",
                          case.programs.trainer)
    if not ended.ok:
        case.fail(f"a plan ends with {ended.status}\n{ended.excerpt()}")
        return
    [plan] = json.loads(ended.output)
    if plan["memory_limit_bytes"] != limit_bytes:
        case.fail(f"the plan's limit is {plan['memory_limit_bytes']}, not {limit_bytes} bytes")


def check_run(case: Case, limit_bytes: int) -> None:
    """The kernel does not enforce these made-up limits, but the trainer respects them."""
    case.train("experiment.yaml", "--only", "full", stub=False)
    row = figures.row_of(case.work / "results", "full")
    if limit_bytes < ENOUGH_BYTES:
        if row["status"] != "out_of_host_memory":
            case.fail(f"the run is {row['status']}, of {limit_bytes} bytes: {row['reason']}")
        return
    usual = figures.row_of(case.artefacts / "training/results", "full")
    if row["status"] != "finished" or abs(row["loss_last"] - usual["loss_last"]) > 1e-5:
        case.fail(f"the run is {row['status']} with loss {row['loss_last']}: {row['reason']}")
    if row["device_memory_bytes"] != limit_bytes:
        case.fail(f"the run's memory is {row['device_memory_bytes']}, not {limit_bytes} bytes")
