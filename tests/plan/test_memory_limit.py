"""The limits of a job or container: what users are told about them, and the end of a run that
exceeds the one of memory. The tests make their own cgroups of version 1. They are skipped if they
cannot, for example if they are not root."""

import contextlib
import json
import os
import signal
import subprocess
from pathlib import Path

import pytest
from few_games import few_games
from waiting import wait_until

CGROUPS = Path("/sys/fs/cgroup")
EXPERIMENT = """experiment: limited
base:
  device: cpu
  threads_per_rank: 1
  model.config: {num_hidden_layers: 4, hidden_size: 512, intermediate_size: 2048, num_attention_heads: 8,
                 num_key_value_heads: 8, vocab_size: 1024}
  data: {kind: chess, train: GAMES, sequence_length: 16}
  train: {steps: 2, warmup_steps_excluded: 0}
points:
  - {name: large, strategy: {kind: single}}
  - {name: small, strategy: {kind: single}, model.config: {num_hidden_layers: 1, hidden_size: 32, intermediate_size: 32}}
""".replace("GAMES", str(few_games()))


class Cgroup:
    def __init__(self, folder: Path):
        self.folder = folder

    def limit(self, mib: int):
        (self.folder / "memory.limit_in_bytes").write_text(str(mib << 20))

    def enter(self):
        (self.folder / "cgroup.procs").write_text(str(os.getpid()))

    def enter_to_be_killed_first(self):
        self.enter()
        Path("/proc/self/oom_score_adj").write_text("1000")

    def processes(self) -> list[int]:
        return [int(line) for line in (self.folder / "cgroup.procs").read_text().split()]

    def trainers(self) -> list[int]:
        return [process for process in self.processes()
                if Path(f"/proc/{process}/cmdline").read_bytes().split(b"\0")[0].endswith(b"fsdp-train")]


@contextlib.contextmanager
def made(hierarchy: str, file: str):
    folder = CGROUPS / hierarchy / f"fsdp-test-{os.getpid()}"
    try:
        folder.mkdir()
        (folder / file).read_text()
    except OSError as error:
        pytest.skip(f"no cgroup can be made: {error}")
    cgroup = Cgroup(folder)
    yield cgroup
    for process in cgroup.processes():
        os.kill(process, signal.SIGKILL)
    wait_until("the cgroup is empty", lambda: not cgroup.processes())
    folder.rmdir()


@pytest.fixture
def cgroup():
    with made("memory", "memory.oom_control") as cgroup:
        yield cgroup


@pytest.fixture
def fsdp_run(runner, trainer, tmp_path):
    (tmp_path / "limited.yaml").write_text(EXPERIMENT)

    def start(*words: str, within: Cgroup | None = None) -> subprocess.Popen:
        return subprocess.Popen([runner, *words], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                text=True, preexec_fn=within.enter_to_be_killed_first if within else None)

    def run(*words: str, within: Cgroup | None = None) -> tuple[int, str]:
        process = start(*words, within=within)
        output = process.communicate()[0]
        return process.returncode, output

    run.start = start
    run.options = ("limited.yaml", "--trainer", str(trainer))
    return run


def rows(fsdp_run) -> dict[str, dict]:
    code, output = fsdp_run("report", "limited", "--format", "json")
    assert code == 0, output
    return {row["point"]: row for row in json.loads(output)["rows"]}


def test_a_limit_is_the_memory_that_there_is(fsdp_run, cgroup):
    cgroup.limit(700)
    code, output = fsdp_run("plan", *fsdp_run.options, "--format", "json", within=cgroup)
    assert code == 0 and {row["memory_limit_bytes"] for row in json.loads(output)} == {700 << 20}, output
    code, output = fsdp_run("plan", *fsdp_run.options, "--set", "strategy.kind=ddp", "--set", "strategy.ranks=2",
                            "--format", "json", within=cgroup)
    assert {row["memory_limit_bytes"] for row in json.loads(output)} == {350 << 20}, output
    cgroup.limit(200)
    code, output = fsdp_run("check", *fsdp_run.options, within=cgroup)
    assert "large is predicted not to fit" in output and "of 0.195 GiB" in " ".join(output.split()), output
    _, output = fsdp_run("doctor", within=cgroup)
    assert "200 MiB, the limit of this job or container" in output


def test_a_run_that_is_killed_for_its_cgroup_s_limit_runs_again(fsdp_run, cgroup, tmp_path):
    cgroup.limit(320)
    code, output = fsdp_run(*fsdp_run.options, within=cgroup)
    assert code == 1, output
    found = rows(fsdp_run)
    assert found["small"]["status"] == "finished"
    assert found["small"]["device_memory_bytes"] == 320 << 20
    assert found["large"]["status"] == "out_of_host_memory"
    assert "ended a process because memory of the host, or of its job or container" in found["large"]["reason"]
    # The kernel's earlier kill does not explain one by a user.
    def events():
        return set(tmp_path.glob("results/runs/*/small*/attempt-1/events*"))

    earlier = events()
    process = fsdp_run.start(*fsdp_run.options, "--only", "small", "--set", "train.steps=1000000", within=cgroup)
    wait_until("the run trains", lambda: process.poll() is not None or events() - earlier)
    assert process.poll() is None, process.communicate()
    for rank in cgroup.trainers():
        os.kill(rank, signal.SIGKILL)
    output = process.communicate()[0]
    assert "small: failed: rank 0 killed by signal 9 (memory may have run out: see dmesg)" in output, output
    code, output = fsdp_run(*fsdp_run.options)
    assert code == 0 and "1 run with a result already" in output, output
    assert rows(fsdp_run)["large"]["status"] == "finished"


def test_a_quota_of_cpu_time_is_the_cores_that_there_are(fsdp_run):
    options = (*fsdp_run.options, "--set", "strategy.kind=ddp", "--set", "strategy.ranks=2")
    with made("cpu", "cpu.cfs_quota_us") as cgroup:
        (cgroup.folder / "cpu.cfs_period_us").write_text("100000")
        (cgroup.folder / "cpu.cfs_quota_us").write_text("150000")
        _, output = fsdp_run("check", *options, within=cgroup)
    assert "more ranks than this host's 1 core;" in " ".join(output.split()), output
