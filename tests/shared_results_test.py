"""A group shares a results folder. With umask and setgid its members can write to it. Others can
read."""

import os
import pathlib
import subprocess
import tempfile

import pytest

SOURCE = pathlib.Path(__file__).resolve().parent.parent
GROUP = 60000
EXPERIMENT = """experiment: trial
base: {device: cpu, train.steps: 3, data: {kind: tokens, train: games.npy, sequence_length: 39}}
points:
  - {name: a}
  - {name: b, train.seed: 2}
"""

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can be other users")


class Member:
    def __init__(self, user, folder, programs, group=GROUP):
        self.user, self.folder, self.programs, self.group = user, folder, programs, group

    def call(self, *arguments):
        """Calls fsdp-run as this user, with a umask that lets the group write."""
        runner, stub = self.programs
        words = [str(word) for word in (runner, *arguments)]
        if "experiment.yaml" in words:
            words += ["--trainer", str(stub)]
        return subprocess.run(
            ["setpriv", f"--reuid={self.user}", f"--regid={self.group}", "--clear-groups",
             "bash", "-c", 'umask 002; exec "$@"', "-", *words],
            cwd=self.folder, capture_output=True, text=True, stdin=subprocess.DEVNULL,
            env={"PATH": os.environ["PATH"], "TMPDIR": str(self.folder / f"tmp{self.user}"),
                 "HOME": str(self.folder / f"tmp{self.user}")})


@pytest.fixture
def place():
    # The folder for temporary files is for one user.
    with tempfile.TemporaryDirectory(prefix="fsdp-shared-", dir="/tmp") as folder:
        os.chmod(folder, 0o755)
        yield pathlib.Path(folder)


@pytest.fixture
def shared(place):
    folder = place / "shared"
    folder.mkdir()
    os.chown(folder, 61001, GROUP)
    folder.chmod(0o2775)
    (folder / "experiment.yaml").write_text(EXPERIMENT)
    build = pathlib.Path(os.environ["FSDP_BUILD"])
    programs = (build / "fsdp-run", build / "stub_trainer")
    import numpy
    numpy.save(folder / "games.npy", numpy.arange(4000, dtype=numpy.int32).reshape(-1, 40) % 512)
    for user in (61001, 61002, 61003):
        (folder / f"tmp{user}").mkdir()
        os.chown(folder / f"tmp{user}", user, GROUP)
    return folder, programs


def files_of(folder):
    return {file: (file.stat().st_mtime_ns, file.stat().st_size) for file in folder.rglob("*")}


def test_members_of_a_group_work_on_each_others_results(shared):
    first, second = (Member(user, *shared) for user in (61001, 61002))
    ended = first.call("experiment.yaml")
    assert ended.returncode == 0, ended.stderr
    results = shared[0] / "results"
    for file in (results, *results.rglob("*")):
        state = file.lstat()
        assert state.st_gid == GROUP, file
        assert file.is_symlink() or state.st_mode & 0o060 == 0o060, file
    again = second.call("experiment.yaml", "--rerun", "--only", "a")
    assert again.returncode == 0, again.stderr
    pruned = second.call("prune", "trial", "--yes")
    assert pruned.returncode == 0, pruned.stderr
    assert first.call("experiment.yaml").returncode == 0


def test_a_watcher_changes_nothing_and_is_told_of_rights_not_of_a_full_disk(shared):
    member, watcher = Member(61001, *shared), Member(61003, *shared, group=61003)
    assert member.call("experiment.yaml").returncode == 0
    results = shared[0] / "results"
    before = files_of(results)
    for command in (["status"], ["report"], ["explain", "a"]):
        watched = watcher.call(*command)
        assert watched.returncode == 0, watched.stderr
        assert "a" in watched.stdout
    refused = watcher.call("experiment.yaml")
    assert refused.returncode != 0
    assert "right to write" in refused.stderr or "writable" in refused.stderr
    assert "free" not in refused.stderr
    assert files_of(results) == before
