"""Calibrations that others wrote: damaged, huge, of other devices, with times that nothing takes. A plan is made all the
same; its step time is that of a valid calibration, or none."""

import json
import math
import os
import pathlib

from tests.hostile import odd
from tests.hostile.case import Case

POINT = "full"
HUGE_COUNT = 200_000


def attack(case: Case) -> None:
    case.take("training/experiment.yaml", "experiment.yaml")
    case.take("training/tokens.npy", "tokens.npy")
    case.take("calibrated", "results")
    [file] = (case.work / "results").glob("calibrations/*/*.json")
    is_usable = case.random.choice([replace, replace, damage, change_value, change_value, make_huge])(case, file)
    ended = case.fsdp_run("plan", "experiment.yaml", "--only", POINT, "--format", "json", "--results", "results",
                          "--trainer", case.programs.trainer)
    judge(case, ended, is_usable)


def judge(case: Case, ended, is_usable: bool | None) -> None:
    """`is_usable` is None if nobody can tell."""
    if not ended.ok:
        case.fail(f"a plan ends with {ended.status}\n{ended.excerpt()}")
        return
    [plan] = json.loads(ended.output)
    time_ms = plan["step_time_ms"]
    is_said = any("step times are not known" in line for line in plan["assumptions"])
    if time_ms is not None and not (math.isfinite(time_ms) and time_ms > 0):
        case.fail(f"a step takes {time_ms} ms")
    if is_usable is True and time_ms is None:
        case.fail(f"a valid calibration is not used: {plan['assumptions']}")
    if is_usable is False and time_ms is not None:
        case.fail(f"a step takes {time_ms} ms by what is no calibration of it")
    is_there = any(os.path.lexists(file) for file in (case.work / "results").glob("calibrations/*/*.json"))
    if time_ms is None and is_there and not is_said and not is_broken_link(case):
        case.fail(f"nothing says why there is no step time: {plan['assumptions']}")


def is_broken_link(case: Case) -> bool:
    return any(file.is_symlink() and not file.exists()
               for file in (case.work / "results").glob("calibrations/*/*.json"))


def replace(case: Case, file: pathlib.Path) -> bool:
    what = case.random.choice(["gone", "folder", "loop", "dangling", "pipe", "unreadable", "link", "pipe by a link"])
    moved = case.work / "moved"
    if what == "unreadable":
        file.chmod(0)
    else:
        file.rename(moved)
    if what == "folder":
        file.mkdir()
    elif what == "pipe":
        os.mkfifo(file)
    elif what == "pipe by a link":
        os.mkfifo(case.work / "pipe")
        file.symlink_to(case.work / "pipe")
    elif what in ("loop", "dangling", "link"):
        file.symlink_to({"loop": file.name, "dangling": "nowhere", "link": moved}[what])
    case.note(what)
    return what == "link"


def damage(case: Case, file: pathlib.Path) -> bool | None:
    contents, what = odd.damaged(case.random, file.read_bytes())
    if case.random.random() < 0.3:
        contents, what = odd.nested(case.random).encode(), "deep"
    file.write_bytes(contents)
    case.note(what)
    return None


def change_value(case: Case, file: pathlib.Path) -> bool | None:
    """Of a time, which is not used if nothing can take it, or of what was measured."""
    calibration = json.loads(file.read_bytes())
    random = case.random
    key = random.choice(["time_ms", "time_ms", "time_ms", "rows", "width", "work", "device", "libtorch", "ranks",
                         "threads", "times"])
    target = random.choice(calibration["times"]) if key in calibration["times"][0] else calibration
    before = target[key]
    target[key] = random.choice([odd.scalar, odd.number, lambda _: -1, lambda _: random.choice(odd.NOT_FINITE),
                                 lambda _: "1e999"])(random)
    text = json.dumps(calibration)
    if target[key] == "1e999":
        text = text.replace('"1e999"', "1e999")
    file.write_text(text)
    case.note(f"{key} = {target[key]!a}"[:200])
    if key != "time_ms":
        return None if target[key] == before or key in ("rows", "width", "work") else False
    is_time = isinstance(target[key], (int, float)) and not isinstance(target[key], bool)
    return None if is_time and 0 < target[key] <= 3.6e6 else False


def make_huge(case: Case, file: pathlib.Path) -> bool | None:
    calibration = json.loads(file.read_bytes())
    what = case.random.choice(["many times", "spaces", "a long name", "twice"])
    if what == "many times":
        calibration["times"] = calibration["times"] * (HUGE_COUNT // len(calibration["times"]))
    elif what == "a long name":
        calibration["times"][0]["work"] = "x" * 20_000_000
    text = json.dumps(calibration)
    if what == "spaces":
        with open(file, "wb") as stream:
            stream.write(text.encode())
            stream.truncate(case.random.choice([20_000_000, 3 << 30]))
    else:
        file.write_text(text[:-1] + ', "ranks": 7}' if what == "twice" else text)
    case.note(what)
    return None
