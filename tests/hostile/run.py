#!/usr/bin/env python3
"""Drives the built programs with hostile inputs, seeded and reproducible.

    .venv/bin/python tests/hostile/run.py --cases 5000             for a night
    .venv/bin/python tests/hostile/run.py --seed 7 --case 123      runs it again, keeps the folder
    .venv/bin/python tests/hostile/run.py --build build/asan --only events

Seed and number reproduce a case. If a case fails, its folder is kept, and the command that runs the
case again is printed. If started as root, this program first becomes the user nobody.
"""

import argparse
import collections
import concurrent.futures
import dataclasses
import importlib
import os
import pathlib
import pwd
import re
import shutil
import sys
import tempfile
import time
import traceback

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.hostile import artefacts  # noqa: E402
from tests.hostile.case import Case, Programs  # noqa: E402
from tests.hostile.mounts import CannotMount  # noqa: E402

KINDS = ("databases", "events", "checkpoints", "model_folders", "npy", "texts", "hub_cache", "calibrations",
         "full_disks", "cgroup_limits", "experiments", "arguments", "environment", "launchers", "run_files")


@dataclasses.dataclass
class Outcome:
    number: int
    kind: str
    seconds: float
    notes: list[str]
    failures: list[str]
    skipped: bool


def kind_of(number: int) -> str:
    return KINDS[number % len(KINDS)]


def become_ordinary(needed: tuple[str, ...]) -> None:
    """Becomes the user nobody, so that a fault of a program under test cannot hurt this machine.
    Stays root only if nobody may not use the `needed` programs."""
    if os.geteuid() != 0:
        return
    nobody = pwd.getpwnam("nobody")

    def drop() -> None:
        os.setgroups([])
        os.setgid(nobody.pw_gid)
        os.setuid(nobody.pw_uid)

    child = os.fork()
    if child == 0:
        drop()
        os._exit(0 if all(os.access(path, os.R_OK | os.X_OK) for path in needed) else 1)
    if os.waitpid(child, 0)[1] == 0:
        drop()
    else:
        print(f"as root: nobody may not use all of {', '.join(needed)}", file=sys.stderr)


def attack(seed: int, number: int, scratch: pathlib.Path, programs: Programs,
           keeps_folder: bool) -> Outcome:
    kind = kind_of(number)
    folder = scratch / f"case-{number}"
    remove(folder)
    begin = time.monotonic()
    skipped = False
    case = Case(seed, number, kind, folder, programs, scratch / "artefacts")
    try:
        importlib.import_module(f"tests.hostile.kinds.{kind}").attack(case)
    except CannotMount:
        skipped = True
    except Exception:
        case.fail("the case itself: " + traceback.format_exc())
    if not case.failures and not keeps_folder:
        remove(folder)
    return Outcome(number, kind, time.monotonic() - begin, case.notes, case.failures, skipped)


def remove(folder: pathlib.Path) -> None:
    def open_and_remove(function, path, _):
        os.chmod(os.path.dirname(path), 0o700)
        os.chmod(path, 0o700)
        shutil.rmtree(path) if os.path.isdir(path) else function(path)

    if folder.exists():
        shutil.rmtree(folder, onerror=open_and_remove)


def report(outcome: Outcome, arguments: argparse.Namespace, scratch: pathlib.Path) -> None:
    print(f"\ncase {outcome.number}, {outcome.kind}: " + "; ".join(ascii(note)[1:200]
                                                                   for note in outcome.notes))
    for failure in outcome.failures:
        print("  " + failure)
    print(f"  folder: {scratch}/case-{outcome.number}\n"
          f"  again: .venv/bin/python tests/hostile/run.py --build {arguments.build} "
          f"--seed {arguments.seed} " f"--case {outcome.number}", flush=True)


def summarise(outcomes: list[Outcome]) -> None:
    print()
    for kind in KINDS:
        of_kind = [outcome for outcome in outcomes if outcome.kind == kind]
        if not of_kind:
            continue
        failed = sum(bool(outcome.failures) for outcome in of_kind)
        seconds = sum(outcome.seconds for outcome in of_kind)
        skipped = sum(outcome.skipped for outcome in of_kind)
        print(f"{kind:15} {len(of_kind):5} cases  {failed:4} failed  {seconds:7.1f} s" +
              (f"  {skipped} skipped: nothing can be mounted here" if skipped else ""))
    forms = collections.Counter(f"{outcome.kind}: " +
                                re.sub(r"\d+", "N", outcome.failures[0].splitlines()[0])[:150]
                                for outcome in outcomes
                                if outcome.failures)
    for form, count in forms.most_common(40):
        print(f"{count:5} x {form}")


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cases", type=int, default=300)
    parser.add_argument("--case", type=int, action="append", help="only this one; may be repeated")
    parser.add_argument("--only", choices=KINDS, action="append", help="only cases of this kind")
    parser.add_argument("--build", default="build/release", help="folder of the programs")
    parser.add_argument("--scratch", help="a folder for the cases (default: a new one in /tmp)")
    parser.add_argument("-j", "--jobs", type=int, default=2)
    return parser.parse_args()


def main() -> int:
    arguments = parse_arguments()
    build = (ROOT / arguments.build).resolve()
    cache = (build / "CMakeCache.txt").read_text()
    programs = Programs(str(build / "fsdp-run"), str(build / "fsdp-train"),
                        str(build / "stub_trainer"),
                        re.search(r"^FSDP_SANITIZE:\w+=.", cache, re.M) is not None)
    become_ordinary(
        (programs.runner, programs.trainer, programs.stub_trainer, sys.prefix, str(ROOT)))
    os.umask(0o022)
    scratch = pathlib.Path(arguments.scratch or tempfile.mkdtemp(prefix="fsdp-hostile-"))
    artefacts.make(scratch / "artefacts", programs)
    numbers = arguments.case or [number for number in range(arguments.cases) if not arguments.only
                                 or kind_of(number) in arguments.only]
    outcomes = []
    with concurrent.futures.ProcessPoolExecutor(arguments.jobs) as workers:
        futures = [workers.submit(attack, arguments.seed, number, scratch, programs,
                                  bool(arguments.case)) for number in numbers]
        for future in concurrent.futures.as_completed(futures):
            outcomes.append(future.result())
            if outcomes[-1].failures:
                report(outcomes[-1], arguments, scratch)
    summarise(outcomes)
    failed = any(outcome.failures for outcome in outcomes)
    if arguments.case:
        print(f"folders: {scratch}")
    elif not failed and not arguments.scratch:
        remove(scratch)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
