"""Runs are stopped at random moments, on this host and on a cluster. The same command follows each stop. The losses are
those of a run that was not stopped, no step is trained again that a checkpoint has, and none is deleted early."""
import json
import os
import random
import signal

import pytest
from cluster import Cluster
from host_processes import is_running
from test_interruptions import preempt
from workplace import HOLDS, TINY, experiment

EVERY, FARTHEST = 10, 25  # steps to the next checkpoint; most steps to the next stop
KINDS = {"here": ("Ctrl-C", "kill the runner", "kill a rank"),
         "slurm": ("requeue", "preempt", "cancel", "kill a rank", "time limit")}


def newest_checkpoint(work):
    """Returns the step of the newest whole checkpoint, or 0. A replaced one stands in for a missing one."""
    folders = (work.run_folder("run") / "checkpoints").glob("step-*")
    return max((int(folder.name.split(".")[0][5:]) for folder in folders
                if not folder.name.endswith(".partial")), default=0)


def stop(kind, work, runner, ranks, attempt):
    """Stops a run whose ranks stand still. Returns when they and the call of fsdp-run have ended."""
    cluster = work.cluster
    job = json.loads((work.run_folder("run") / f"attempt-{attempt}/launch.json").read_text())["slurm_job"]
    match kind:
        case "Ctrl-C":
            runner.send_signal(signal.SIGINT)
            work.wait_for_signal(signal.SIGTERM, ranks)
            work.release(ranks)
        case "kill the runner":
            runner.kill()
        case "kill a rank":
            os.kill(ranks[0], signal.SIGKILL)
        case "requeue":
            assert cluster.call("scontrol", "requeue", job).returncode == 0
        case "preempt":
            preempt(cluster)
        case "cancel":
            work.call("cancel", work.file)
        case "time limit":
            assert cluster.call("scontrol", "update", f"job={job}", "timelimit=9").returncode == 0
            work.wait_for_signal(signal.SIGUSR1, ranks)
            assert cluster.call("scontrol", "update", f"job={job}", "timelimit=30").returncode == 0
            work.release(ranks)
    if kind in ("requeue", "preempt", "time limit"):  # the job goes on, and the next call follows it
        runner.send_signal(signal.SIGINT)
    work.end_of(runner, None)
    cluster.wait_until("the ranks have ended", lambda: not any(map(is_running, ranks)))


def command(work, place):
    return work.with_trainer() if place == "slurm" else [work.file, "--trainer", work.trainer]


@pytest.fixture
def place_and_cluster(request):
    here = request.param == "here"
    yield request.param, (Cluster("/nonexistent") if here else request.getfixturevalue("cluster"))


@pytest.mark.parametrize("seed, stops", [(1, 3), pytest.param(2, 10, marks=pytest.mark.nightly)])
@pytest.mark.parametrize("checkpoints", [True, False])
@pytest.mark.parametrize("place_and_cluster", KINDS, indirect=True)
def test_random_stops(place_and_cluster, workplace, hold_at_step, tmp_path, seed, stops, checkpoints):
    place, cluster = place_and_cluster
    draw = random.Random(f"{place} {checkpoints} {seed}")
    kinds = [kind for kind in KINDS[place] if checkpoints or kind != "time limit"]
    drawn = [(draw.choice(kinds), draw.randint(1, FARTHEST)) for _ in range(stops)]
    keep = f"checkpoint: {{every_steps: {EVERY}, keep: 1}}, " if checkpoints else ""
    steps = (stops + 1) * FARTHEST
    work = workplace(cluster, experiment(
        [f"{{name: run, {keep}train.steps: {steps}}}"],
        TINY.replace("resume: auto", f"environment: [LD_PRELOAD={hold_at_step}, HOLD_FOLDER={HOLDS}]"),
        "time: 30, signal_before_end_s: 540, max_restarts: 100"))
    held_at, newest, begins = drawn[0][1], 0, [1]
    work.let_wait(held_at)
    for attempt, (kind, _) in enumerate(drawn, 1):
        runner = work.start(*command(work, place), TMPDIR=str(tmp_path))
        ranks = work.hold("run", attempt)
        assert newest_checkpoint(work) >= newest
        if attempt < stops:
            held_at = (held_at if checkpoints else 0) + drawn[attempt][1]
            work.let_wait(held_at, attempt + 1)
        stop(kind, work, runner, ranks, attempt)
        assert newest_checkpoint(work) >= newest
        newest = newest_checkpoint(work)
        begins.append(newest + 1)
    work.call(*command(work, place), TMPDIR=str(tmp_path))
    found = work.query("select attempt, step, loss from steps where rank = 0 order by attempt, step")
    [expected] = work.local_losses().values()
    assert [row for row in found if row["loss"] != expected[row["step"]]] == []
    assert {row["step"] for row in found} == expected.keys()
    first = {}
    for row in found:
        first.setdefault(row["attempt"], row["step"])
    assert list(first.values()) == begins, drawn
    assert newest_checkpoint(work) == (steps // EVERY * EVERY if checkpoints else 0)
