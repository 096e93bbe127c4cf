"""The folders of a day, and the programs that are called there."""
import contextlib
import ctypes
import hashlib
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy
from experiment import CONTENTS, NAME, OTHER, experiment, tokens
from processes import processes_of, send

CLOCK_LIBRARIES = ("usr/lib/*/faketime/libfaketimeMT.so.1",
                   "usr/local/lib/faketime/libfaketimeMT.so.1")
DISK_MIB = 96
OTHER_RUNS = 2
_libc = ctypes.CDLL(None, use_errno=True)
MS_RDONLY, MS_REMOUNT, MS_BIND, MNT_DETACH = 1, 32, 4096, 2


def _mount(*arguments, what=_libc.mount):
    encoded = [argument.encode() if isinstance(argument, str) else argument
               for argument in map(lambda a: str(a) if isinstance(a, Path) else a, arguments)]
    if what(*encoded) != 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error), str(arguments[0]))


class Workplace:
    """Programs are called in project/. disk/ is a small file system with the results. It is a plain
    folder on hosts without mounts, which then cannot be full or read-only. Nothing should change
    home/ and tmp/. An environment variable marks the programs and all processes that they start."""

    def __init__(self, folder, runs, runner, trainer):
        self.folder = Path(folder).resolve()
        self.runner, self.trainer = Path(runner).resolve(), Path(trainer).resolve()
        for name in ("project", "disk", "home", "tmp", "calls"):
            (self.folder / name).mkdir(parents=True)
        self.project, self.disk = self.folder / "project", self.folder / "disk"
        self.results, self.away = self.disk / "results", self.disk / "away"
        self.undisturbed = self.folder / "undisturbed"
        self.merged = self.folder / "merged"
        for name, seed in CONTENTS.items():
            self.save_tokens(name, seed)
        for name, count in ((NAME, runs), (OTHER, OTHER_RUNS)):
            (self.project / f"{name}.yaml").write_text(experiment(name, count))
        self.clock = self.folder / "clock"
        self.set_clock(0)
        self.has_disk = True
        try:
            _mount("none", self.disk, "tmpfs", 0, f"size={DISK_MIB}m,mode=755")
        except OSError:
            self.has_disk = False
        self.environment = self._environment()
        self._calls = 0

    @property
    def has_clock(self):
        return "LD_PRELOAD" in self.environment

    def _environment(self):
        environment = {name: value for name, value in os.environ.items()
                       if name in ("PATH", "LANG", "ASAN_OPTIONS", "UBSAN_OPTIONS")}
        environment |= {"HOME": str(self.folder / "home"), "TMPDIR": str(self.folder / "tmp"),
                        "FSDP_TEST_DAY": str(self.folder)}
        if any(name in self.runner.read_bytes() for name in (b"__asan_init", b"__tsan_init")):
            return environment  # sanitizers must be loaded first
        for pattern in CLOCK_LIBRARIES:
            for library in Path("/").glob(pattern):
                return environment | {
                    "LD_PRELOAD": str(library), "FAKETIME_TIMESTAMP_FILE": str(self.clock),
                    "FAKETIME_NO_CACHE": "1", "FAKETIME_DONT_FAKE_MONOTONIC": "1",
                    "NO_FAKE_STAT": "1"}
        return environment

    # --- calls ---

    def start(self, *arguments):
        """Starts fsdp-run, and does not wait for it. `printed` is the name of the files with its
        output."""
        self._calls += 1
        printed = self.folder / "calls" / f"{self._calls:04}"
        printed.with_suffix(".command").write_text(" ".join(map(str, arguments)) + "\n")
        with (printed.with_suffix(".out").open("w") as output,
              printed.with_suffix(".err").open("w") as errors):
            process = subprocess.Popen([self.runner, *map(str, arguments)], cwd=self.project,
                                       env=self.environment, stdin=subprocess.DEVNULL,
                                       stdout=output, stderr=errors)
        process.printed = printed
        return process

    def run_arguments(self, name=NAME, *more, results=None):
        return [f"{name}.yaml", "--results", results or self.results, "--trainer", self.trainer,
                *more]

    def call(self, *arguments, limit_s=300):
        process = self.start(*arguments)
        try:
            process.wait(limit_s)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise TimeoutError(f"call {process.printed.name} did not end within {limit_s} s")
        return process

    # --- what faults need ---

    def save_tokens(self, name, seed):
        """Replaces the file by another one, as editors do."""
        new = self.project / f"new-{name}"
        numpy.save(new, tokens(seed))
        new.rename(self.project / name)

    def set_clock(self, offset_s):
        """Moves the clock of all programs, from now on, except their monotonic clocks."""
        new = self.clock.with_suffix(".new")
        new.write_text(f"{offset_s:+}\n")
        new.rename(self.clock)

    def contents_outside(self):
        """Returns path -> digest of all files outside the results."""
        return {str(path.relative_to(self.folder)): hashlib.sha256(path.read_bytes()).hexdigest()
                for name in ("project", "home", "tmp")
                for path in (self.folder / name).rglob("*") if path.is_file()}

    def fill_disk(self, left_bytes):
        free = os.statvfs(self.disk)
        size = max(free.f_bavail * free.f_frsize - left_bytes, 0)
        with (self.disk / "filler").open("wb") as filler, contextlib.suppress(OSError):
            os.posix_fallocate(filler.fileno(), 0, max(size, 1))

    def forbid_writing(self):
        """Makes the results read-only for files that are opened from now on."""
        _mount(self.results, self.results, None, MS_BIND, None)
        _mount(None, self.results, None, MS_REMOUNT | MS_BIND | MS_RDONLY, None)

    def allow_writing(self):
        _mount(self.results, MNT_DETACH, what=_libc.umount2)

    def end(self, kept):
        """Ends all processes, and unmounts. With `kept`, first copies disk/ to disk-kept."""
        while started := processes_of(self):
            for process in started:
                send(process, signal.SIGKILL)
            time.sleep(0.05)
        if kept:
            shutil.copytree(self.disk, self.folder / "disk-kept", symlinks=True)
        for mounted in (self.results, self.disk):
            with contextlib.suppress(OSError):
                _mount(mounted, MNT_DETACH, what=_libc.umount2)


def in_own_mounts():
    """Executes this program again in a mount namespace. Does nothing if this host has none."""
    if os.environ.get("FSDP_TEST_OWN_MOUNTS"):
        return
    unshare = ["unshare", "-m"] if os.geteuid() == 0 else ["unshare", "-rm"]
    if shutil.which("unshare") is None or subprocess.run(
            [*unshare, "true"], stderr=subprocess.DEVNULL).returncode != 0:
        return
    os.environ["FSDP_TEST_OWN_MOUNTS"] = "1"
    sys.stdout.flush()
    os.execvp(unshare[0], [*unshare, sys.executable, "-B", *sys.argv])
