"""What users are told if jobs wait or never start, or if the controller does not answer."""
import os
import select
import signal
import time

import pytest
from waiting import LIMIT_S
from workplace import MODES, experiment

BASE = "device: cpu, train.steps: 4"


def read_until(follower, words):
    """Returns the follower's messages up to these words. end_of returns the rest."""
    told, deadline = b"", time.monotonic() + LIMIT_S
    while words.encode() not in told:
        patience_s = max(0, deadline - time.monotonic())
        said, _, _ = select.select([follower.stderr], [], [], patience_s)
        assert said, f"not said: {words}\n{told.decode()}"
        text = os.read(follower.stderr.fileno(), 65536)
        assert text, f"ended without: {words}\n{told.decode()}"
        told += text
    return told.decode()


@pytest.mark.parametrize("impossible, words", [
    ("partition: nowhere", "invalid partition"),
    ("constraint: fast", "Invalid feature"),
    ("mem: 64G", "Memory specification"),
])
def test_a_request_that_slurm_refuses_is_said_at_once(cluster, workplace, gate, impossible,
                                                      words):
    work = workplace(cluster, experiment(
        ["{name: other}", f"{{name: never, train.seed: 2, slurm.{impossible}}}"], BASE,
        f"time: 10, environment: ['STUB_RULES=step=3,await={gate}']"))
    follower = work.start(*work.with_stub())
    told = read_until(follower, words)  # said before the other run can end
    [row] = work.query("select reason from runs where status = 'failed'")
    assert "sbatch" in row["reason"]
    assert words in row["reason"]
    gate.touch()
    ended = work.end_of(follower, status=1)
    assert row["reason"] in told + ended.stderr
    assert work.statuses() == {"other": "finished", "never": "failed"}
    assert work.attempts() == {"other": ["finished"]}


@pytest.mark.parametrize("impossible, reason", [
    ("partition: short, time: 5", "PartitionTimeLimit"),
    ("partition: closed", "PartitionDown"),
    ("nodes: 9", "PartitionNodeLimit"),
])
def test_a_job_that_waits_for_ever_is_said_while_it_waits(cluster, workplace, impossible, reason):
    ranks = 9 if "nodes" in impossible else 1
    work = workplace(cluster, experiment(
        [f"{{name: never, strategy: {{kind: ddp, ranks: {ranks}}}}}"], BASE, impossible))
    follower = work.start(*work.with_stub())
    told = read_until(follower, "cancel ends it")
    # The reason depends on which of Slurm's schedulers looked last.
    assert f"start: {reason}: " in told or "start: PartitionConfig: " in told
    work.call("cancel", work.file)
    work.end_of(follower, status=1)
    assert work.statuses() == {"never": "cancelled"}


def test_a_run_that_is_requeued_and_held_is_said_and_blocks_no_later_one(cluster, workplace, gate):
    work = workplace(cluster, experiment(
        ["{name: a}", "{name: b, train.seed: 2}"], BASE,
        f"time: 10, max_parallel: 1, environment: ['STUB_RULES=step=3,await={gate}']"))
    first = work.start(*work.with_stub("--only", "a"))
    work.wait_for_step("a", 2)
    [row] = work.query("select slurm_job from jobs")
    assert cluster.call("scontrol", "requeuehold", f"{row['slurm_job']}_0").returncode == 0
    told = read_until(first, "cancel ends it")
    assert "held" in told and "`scontrol release` lets it start" in told, told
    first.send_signal(signal.SIGINT)
    work.end_of(first, status=130)
    gate.touch()
    work.call(*work.with_stub("--only", "b", "--detach"))
    cluster.wait_until("b has ended", lambda: (work.run_folder("b") / "attempt-1/end.json").exists())
    assert cluster.call("scontrol", "release", row["slurm_job"]).returncode == 0
    work.call(*work.with_stub())
    assert work.attempts() == {"a": ["preempted", "finished"], "b": ["finished"]}


def test_the_controller_is_away_in_the_middle(any_own_cluster, workplace, gate):
    cluster = any_own_cluster(MessageTimeout=3)
    works = [workplace(cluster, experiment(
        ["{name: a}", "{name: b, train.seed: 2}"], BASE,
        f"mode: {mode}, max_parallel: 1, environment: ['STUB_RULES=step=3,await={gate}']"),
        folder=mode) for mode in MODES]
    followers = [work.start(*work.with_stub()) for work in works]
    for work in works:
        work.wait_for_step("a", 2)
    cluster.stop_controller()
    told = [read_until(follower, "does not answer") for follower in followers]
    # One run ends and the other starts while the controller does not answer.
    gate.touch()
    for work in works:
        cluster.wait_until("a has ended", lambda: work.records("end.json"))
    cluster.start_controller()
    for work, follower, before in zip(works, followers, told):
        ended = work.end_of(follower)
        assert "answers again" in ended.stderr
        assert work.attempts() == {"a": ["finished"], "b": ["finished"]}


def test_a_controller_that_was_never_seen_is_an_error(any_own_cluster, workplace):
    cluster = any_own_cluster(MessageTimeout=3)
    work = workplace(cluster, experiment(["{name: a}"], BASE))
    cluster.stop_controller()
    for words in ([], ["--detach"]):
        refused = work.call(*work.with_stub(*words), status=1)
        assert "Slurm cannot be reached" in refused.stderr
        assert "nothing was submitted" in refused.stderr
        assert work.query("select * from jobs") == []
    cluster.start_controller()
    work.call(*work.with_stub())
    assert work.attempts() == {"a": ["finished"]}
    assert len(work.query("select * from jobs")) == 1


def test_status_of_what_runs_and_waits(cluster, workplace, gate):
    work = workplace(cluster, experiment(
        ["{name: runs, strategy: {kind: ddp, ranks: 2}}",
         "{name: waits, strategy: {kind: ddp, ranks: 2}, train.seed: 2}"], BASE,
        f"max_parallel: 1, nodes: 2, time: 10, environment: ['STUB_RULES=step=3,await={gate}']"))
    work.call(*work.with_stub("--detach"))
    work.wait_for_step("runs", 2)
    status = work.call("status", work.file)
    [job] = [row["slurm_job"] for row in work.query("select slurm_job from jobs")]
    [runs] = [line for line in status.stdout.splitlines() if "trial/runs" in line]
    [waits] = [line for line in status.stdout.splitlines() if "trial/waits" in line]
    assert {"running", f"{job}_0", "2/4", "n[1-2]"} < set(runs.split())
    assert {"queued", f"{job}_1"} < set(waits.split())
    gate.touch()
    work.call(*work.with_stub("--follow"))
    assert work.attempts() == {"runs": ["finished"], "waits": ["finished"]}


def told_by_check(work, *more):
    told = work.call("check", work.file, "--launcher", "slurm", *more, status=None).stdout
    return " ".join(told.split())


@pytest.mark.parametrize("impossible, words", [
    ("partition: nowhere", "Slurm would refuse the job of never: "),
    ("mem: 64G", "Slurm would refuse the job of never: "),
    ("partition: short, time: 5", "never start: it asks for 5, and partition short gives a job"),
    ("partition: closed", "never start: partition closed is DOWN; set another slurm.partition"),
    ("nodes: 9", "never start: it asks for 9 nodes, and partition main gives a job at most 3"),
])
def test_check_says_what_the_cluster_would_refuse_and_submits_nothing(cluster, workplace, impossible,
                                                                      words):
    ranks = 9 if "nodes" in impossible else 1
    work = workplace(cluster, experiment(
        [f"{{name: never, strategy: {{kind: ddp, ranks: {ranks}}}}}"], BASE, impossible))
    assert words in told_by_check(work)
    assert not work.results.exists()


def test_check_says_if_the_default_memory_is_too_small(cluster, workplace):
    work = workplace(cluster, experiment(["{name: large}"], f"{BASE}, data.sequence_length: 16"))
    for more, is_said in ([], True), (["--set", "slurm.mem=7G"], False):
        told = told_by_check(work, "--trainer", work.trainer, *more)
        said = "of a node's memory, and Slurm gives the job 0.0977 GiB by default; set slurm.mem"
        assert (said in told) == is_said, told


def test_check_has_nothing_against_jobs_that_the_cluster_takes(cluster, workplace):
    work = workplace(cluster, experiment(["{name: a}", "{name: b, train.seed: 2}"], BASE))
    told = told_by_check(work)
    assert "Slurm: 2 jobs in 1 array" in told, told
    assert "refuse" not in told, told
