"""Calibrations that others wrote: damaged, huge, of other devices, with impossible times. A plan is
still made. Its step time is that of a valid calibration, or unknown."""

import json
import math
import os
import pathlib

from tests.hostile import odd
from tests.hostile.case import Case

POINT = "full"
HUGE_COUNT = 200_000


def attack(case: Case) -> None:
    case.take_training()
    case.take("calibrated", "results")
    [file] = (case.work / "results").glob("calibrations/*/*.json")
    change = case.random.choice([replace, replace, damage, change_value, change_value, make_huge, scale, move])
    is_usable = change(case, file)
    judge(case, plan(case), file, is_usable)


def plan(case: Case, point: str = POINT, results: str = "results"):
    return case.fsdp_run("plan", "experiment.yaml", "--only", point, "--format", "json", "--results", results,
                         "--trainer", case.programs.trainer)


def judge(case: Case, ended, file: pathlib.Path, is_usable: bool | None) -> None:
    """`file` is where the calibration should be. `is_usable` is None if either answer is right."""
    if not ended.ok:
        case.fail(f"a plan ends with {ended.status}\n{ended.excerpt()}")
        return
    [planned] = json.loads(ended.output)
    time_ms = planned["step_time_ms"]
    is_said = any("step times are not known" in line for line in planned["assumptions"])
    if time_ms is not None and not (math.isfinite(time_ms) and time_ms > 0):
        case.fail(f"a step takes {time_ms} ms")
    if is_usable is True and time_ms is None:
        case.fail(f"a valid calibration is not used: {planned['assumptions']}")
    if is_usable is False and time_ms is not None:
        case.fail(f"a step takes {time_ms} ms by what is no calibration of it")
    if time_ms is None and os.path.lexists(file) and not is_said and not (
            file.is_symlink() and not file.exists()):
        case.fail(f"nothing says why there is no step time: {planned['assumptions']}")


def replace(case: Case, file: pathlib.Path) -> bool:
    what = case.replace(file, ["gone", "folder", "loop", "dangling", "pipe", "unreadable", "link",
                               "pipe by a link"])
    if what == "pipe by a link":
        odd.put(case.work / "pipe", "pipe")
        file.unlink()
        file.symlink_to(case.work / "pipe")
    return what == "link"


def damage(case: Case, file: pathlib.Path) -> None:
    if case.random.random() < 0.3:
        file.write_text(odd.nested(case.random))
        case.note("deep")
    else:
        case.damage(file)


def change_value(case: Case, file: pathlib.Path) -> bool | None:
    """Changes one value of the calibration: a time, which may become impossible, or what was
    measured."""
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


def scale(case: Case, file: pathlib.Path) -> bool:
    """Multiplies all times. The planned step time must grow equally."""
    factor = case.random.choice([2, 3, 1000])
    before_ms = json.loads(plan(case).output)[0]["step_time_ms"]
    calibration = json.loads(file.read_bytes())
    for time in calibration["times"]:
        time["time_ms"] *= factor
    file.write_text(json.dumps(calibration))
    case.note(f"all times {factor}-fold")
    after_ms = json.loads(plan(case).output)[0]["step_time_ms"]
    if before_ms is None or after_ms is None or not math.isclose(after_ms, factor * before_ms, rel_tol=1e-3):
        case.fail(f"a step takes {after_ms} ms if all takes {factor} times as long, otherwise {before_ms} ms")
    return True


def move(case: Case, file: pathlib.Path) -> bool | None:
    """Puts a calibration in another run's place, or at a wrong place, or removes a measurement from
    it."""
    what = case.random.choice(["other ranks", "other folder", "other name", "without a measurement"])
    case.note(what)
    if what == "without a measurement":
        calibration = json.loads(file.read_bytes())
        del calibration["times"][case.random.randrange(len(calibration["times"]))]
        file.write_text(json.dumps(calibration))
        return None
    if what == "other folder":
        file.parent.rename(file.parent.with_name("0" * 32))
    elif what == "other name":
        file.rename(file.with_name("other.json"))
    else:  # a real calibration makes the folder, because no plan shows the digest in its name
        case.fsdp_run("calibrate", "experiment.yaml", "--only", "sharded", "--rounds", "1", "--results", "others",
                      "--trainer", case.programs.trainer, may_change=("others",))
        [place] = (case.work / "others").glob("calibrations/*/*.json")
        place.write_bytes(file.read_bytes())
        judge(case, plan(case, "sharded", "others"), place, False)
        return True
    return False


def make_huge(case: Case, file: pathlib.Path) -> None:
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
