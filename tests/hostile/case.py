"""Case: one hostile input in its own folder, the programs that run on it, and their failures."""

import contextlib
import dataclasses
import os
import pathlib
import random
import resource
import shutil
from typing import ClassVar

from tests.hostile import odd, oracle, sandbox, snapshot
from tests.hostile.mounts import Mounts
from tests.hostile.sandbox import Ended

# Names of an index, and of the target of a user's link to it.
INDEX = ("results.sqlite*", "target.sqlite*")


@dataclasses.dataclass(frozen=True)
class Programs:
    """The built programs. `sanitized` programs are slower, and get no memory limit."""

    runner: str
    trainer: str
    stub_trainer: str
    sanitized: bool
    limit_s: ClassVar[float] = 300


class Case:
    """The seed, the case's number and its kind determine everything random.

    Programs run in `work`, and may also use `home` and `temporary`. A kind's `attack(case)` writes
    its inputs there, runs programs, and calls `fail` for each wrong behaviour.
    """
    def __init__(self, seed: int, number: int, kind: str, folder: pathlib.Path, programs: Programs,
                 artefacts: pathlib.Path):
        self.name = f"{seed}-{number}"
        self.kind = kind
        self.random = random.Random(f"{kind} {seed} {number}")
        self.folder = folder
        self.work = folder / "work"
        self.programs = programs
        self.artefacts = artefacts
        self.notes: list[str] = []
        self.failures: list[str] = []
        self.mounts: Mounts | None = None
        for part in ("work", "home", "tmp"):
            (folder / part).mkdir(parents=True)
        (folder / "home" / "precious").write_text("not yours\n")
        (self.work / "precious").write_text("not yours\n")

    def note(self, text: str) -> None:
        """Notes a change of the input, for the reader of a failure."""
        self.notes.append(text)

    def damaged(self, contents: bytes, name: str) -> bytes:
        """Returns the contents with some bytes changed, and notes the change."""
        contents, what = odd.damaged(self.random, contents)
        self.note(f"{name}: {what}")
        return contents

    def damage(self, file: pathlib.Path) -> None:
        file.write_bytes(self.damaged(file.read_bytes(), file.name))

    def replace(self, file: pathlib.Path, kinds: list[str]) -> str:
        """Puts one of these kinds in place of the file, notes it and returns it."""
        what = self.random.choice(kinds)
        if what == "link":
            shutil.move(file, self.work / "moved")
            file.symlink_to(self.work / "moved")
        else:
            odd.put(file, what)
        self.note(f"{file.name}: {what}")
        return what

    def fail(self, text: str) -> None:
        """Records a failure, printable and short. Failures with an equal first line count once."""
        lines = [ascii(line)[1:-1][:300] for line in text.splitlines()[:30]]
        if all(failure.splitlines()[0] != lines[0] for failure in self.failures):
            self.failures.append("\n".join(lines))

    def take_training(self) -> None:
        for name in ("experiment.yaml", "tokens.npy"):
            self.take(f"training/{name}", name)

    def take(self, artefact: str, name: str = "") -> pathlib.Path:
        """Copies a valid artefact to the working folder. Returns the copy."""
        target = self.work / (name or artefact)
        source = self.artefacts / artefact
        if source.is_dir():
            shutil.copytree(source, target, symlinks=True)
        else:
            shutil.copyfile(source, target)
        return target

    def write(self, name: str, contents: str | bytes) -> pathlib.Path:
        file = self.work / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(
            contents.encode("utf-8", "surrogateescape") if isinstance(contents, str) else contents)
        return file

    @contextlib.contextmanager
    def mounted(self):
        """Yields Mounts. Programs that run meanwhile see their file systems."""
        self.mounts = Mounts(self.work)
        try:
            yield self.mounts
        finally:
            self.mounts.close()
            self.mounts = None

    def fsdp_run(self, *arguments: str | bytes, may_change: tuple[str, ...] = (),
                 **options) -> Ended:
        """Runs fsdp-run. Only paths in `may_change`, relative to the working folder, may differ
        afterwards. A command may also update the index of its results folders."""
        words = [os.fsdecode(word) for word in arguments]
        folders = [after for word, after in zip(words, words[1:]) if word == "--results"]
        indices = [os.path.relpath(self.work / folder / name, self.work)
                   for folder in folders or ["results"] for name in INDEX]
        return self.run([self.programs.runner, *arguments], may_change=(*may_change, *indices),
                        **options)

    def train(self, *arguments: str | bytes, stub: bool = True, results: str = "results",
              also_changes: tuple[str, ...] = (), **options) -> Ended:
        """Runs fsdp-run with a trainer, which may change the results folder."""
        trainer = self.programs.stub_trainer if stub else self.programs.trainer
        return self.fsdp_run(*arguments, "--trainer", trainer, "--results", results,
                             may_change=(results, *also_changes), **options)

    def check_and_plan(self, experiment: str, *words: str, check_sees_more: bool = False,
                       **options) -> tuple[Ended, Ended]:
        """Runs check and --dry-run, which must agree. check may still refuse more if it
        `check_sees_more`."""
        checked = self.fsdp_run("check", experiment, *words, **options)
        planned = self.fsdp_run(experiment, "--dry-run", *words, "--trainer", self.programs.stub_trainer,
                                **options)
        if checked.ok != planned.ok and not (check_sees_more and planned.ok):
            self.fail(f"check says {checked.status}, --dry-run {planned.status}\n{checked.excerpt()}\n"
                      f"{planned.excerpt()}")
        return checked, planned

    def run(self, command: list[str | bytes], *, may_change: tuple[str, ...] = (),
            environment: dict[str, str] | None = None, raw_output: bool = False, mute: bool = False,
            statuses: tuple[int, ...] = oracle.RUNNER_STATUSES, **options) -> Ended:
        """Runs a command and judges it. `raw_output`: its output may hold control characters of
        others' text. `mute`: it cannot print a message."""
        before = snapshot.take(self.folder)
        variables = {**self.environment(), **(environment or {})}
        if resource.RLIMIT_NPROC in options.get("limits", {}):  # the leak check is a process
            variables["ASAN_OPTIONS"] += ":detect_leaks=0"
        ended = sandbox.run(self.mounts.inside(command) if self.mounts else command, self.work,
                            variables, limit_s=self.programs.limit_s,
                            memory_limit=not self.programs.sanitized, **options)
        for problem in oracle.problems(ended, statuses, raw_output, mute):
            self.fail(f"{problem}\n    of: {ended.command_line}\n{ended.excerpt()}")
        # Runners see each other in fsdp-run.devices. Each removes its files when it ends.
        allowed = ("tmp/fsdp-run.devices", *(f"work/{name}" for name in may_change))
        for change in snapshot.changes(before, snapshot.take(self.folder), allowed):
            self.fail(f"changed {change}\n    by: {ended.command_line}\n{ended.excerpt()}")
        return ended

    def environment(self) -> dict[str, str]:
        sanitizers = "exitcode=99:abort_on_error=0:halt_on_error=1"
        return {
            "PATH": os.environ.get("PATH", "/usr/bin:/bin"), "HOME": str(self.folder / "home"),
            "TMPDIR": str(self.folder / "tmp"), "LANG": "C.UTF-8", "ASAN_OPTIONS": sanitizers,
            "UBSAN_OPTIONS": sanitizers, "LSAN_OPTIONS": "exitcode=99",
            "TSAN_OPTIONS": "exitcode=99"
        }
