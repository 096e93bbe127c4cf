"""A cluster interrupts runs. They continue later or elsewhere, with the same losses."""
import signal
from concurrent.futures import ThreadPoolExecutor

import pytest
from workplace import MODES, TINY, experiment

# With these settings a cluster soon notices a dead node.
QUICK_TO_MISS = {"SlurmdTimeout": 3, "MessageTimeout": 3}

# Each step takes a few milliseconds. A run is held in the middle while the cluster acts.
STEPS, CHECKPOINT, HELD = 600, 100, 130
ONE_RUN = [f"{{name: run, checkpoint.every_steps: {CHECKPOINT}, train.steps: {STEPS}}}"]
# The other run has ended when the cluster acts. Its checkpoint makes it a task of the same array.
WITH_SIBLING = ["{name: before, train.steps: 5, checkpoint.every_steps: 5}", *ONE_RUN]


def hold_between_checkpoints(work):
    """Stops the ranks of the run between two checkpoints. Returns the ranks."""
    ranks = work.hold("run", HELD)
    # After its step, a checkpoint may be half written until its event comes.
    while (step := work.last_step("run")) // CHECKPOINT * CHECKPOINT != work.last_step("run", kind="checkpoint"):
        work.release(ranks)
        ranks = work.hold("run", step + 1)
    return ranks


def start_and_hold(work):
    """Starts the experiment. Returns the follower and the stopped ranks of its run."""
    return work.start(*work.with_trainer()), hold_between_checkpoints(work)


def start_and_hold_both_modes(workplace, cluster, base, slurm, points=ONE_RUN):
    """Starts both modes side by side, to save time. Returns each mode's workplace, follower and
    ranks."""
    works = [workplace(cluster, experiment(points, base, f"mode: {mode}, {slurm}"), folder=mode)
             for mode in MODES]
    followers = [work.start(*work.with_trainer()) for work in works]
    with ThreadPoolExecutor() as pool:
        ranks = list(pool.map(hold_between_checkpoints, works))
    return list(zip(works, followers, ranks))


def check_that_it_went_on(work, follower, interrupted_as, from_where_it_was=True, siblings=None):
    ended = work.end_of(follower)
    assert ended.returncode == 0, ended.stderr
    assert work.attempts() == {**(siblings or {}), "run": [interrupted_as, "finished"]}
    check_resumption(work, from_where_it_was)


def check_resumption(work, from_where_it_was=True):
    """Checks that the run resumed from the checkpoint written on request, or else from the last
    periodic one."""
    assert work.losses() == work.local_losses()
    first, second = work.query(
        "select min(step) as first, max(step) as last from steps join runs on run = runs.id "
        "where point = 'run' and rank = 0 group by attempt order by attempt")
    newest = first["last"] if from_where_it_was else first["last"] // CHECKPOINT * CHECKPOINT
    assert second == {"first": newest + 1, "last": STEPS}


def test_a_time_limit_comes_and_the_run_goes_on(any_cluster, workplace):
    # Slurm sends the signal up to a minute early: here at its first check, after 15 s.
    held = start_and_hold_both_modes(workplace, any_cluster, TINY,
                                     "time: 2, signal_before_end_s: 75", WITH_SIBLING)
    for work, _, ranks in held:
        work.release_when_sent(signal.SIGUSR1, ranks)
    for work, follower, _ in held:
        check_that_it_went_on(work, follower, "time_limit", siblings={"before": ["finished"]})
        assert len(work.query("select * from jobs")) == 1


def test_a_time_limit_ends_a_run_that_keeps_no_checkpoints(cluster, workplace, tmp_path):
    work = workplace(cluster, experiment(
        ["{name: run}"], "device: cpu, train.steps: 4",
        f"time: 1, environment: ['STUB_RULES=step=3,await={tmp_path}/never']"))
    ended = work.call(*work.with_stub())
    assert ended.returncode == 1
    assert work.attempts() == {"run": ["time_limit"]}
    assert "time limit" in ended.stderr


def preempt(cluster):
    """Preempts by a job that takes all nodes. Slurm sends SIGCONT with SIGTERM, so no rank stays
    stopped."""
    taken = cluster.call("sbatch", "--partition=high", "--nodes=3", "--exclusive",
                         "--output=/dev/null", "--wrap=sleep 1")
    assert taken.returncode == 0, taken.stderr


@pytest.mark.parametrize("partition", ["main", "cancel"])
def test_a_preempted_run_goes_on(any_cluster, workplace, partition):
    work = workplace(any_cluster, experiment(ONE_RUN, TINY, f"partition: {partition}, time: 10"))
    follower, _ = start_and_hold(work)
    preempt(any_cluster)
    check_that_it_went_on(work, follower, "preempted")
    [row] = work.query("select reason from attempts where status = 'preempted'")
    # If a job continues, Slurm does not say who requeued it.
    assert row["reason"].startswith("the job was requeued, by a preemption or by scontrol requeue"
                                    if partition == "main" else "another job took the nodes")
    # In one partition Slurm requeues the job, in the other the runner submits another.
    assert len(work.query("select * from jobs")) == (1 if partition == "main" else 2)


def test_a_run_that_is_preempted_with_a_grace_time_goes_on(cluster, workplace):
    held = start_and_hold_both_modes(workplace, cluster, TINY, "partition: grace, time: 10",
                                     WITH_SIBLING)
    preempt(cluster)
    for work, follower, _ in held:
        check_that_it_went_on(work, follower, "preempted", siblings={"before": ["finished"]})
        assert len(work.query("select * from jobs")) == 1


# The nodes at the start, the node that dies, and the nodes afterwards. Stopped ranks do not notice
# a rank's end before Slurm does. The batch script runs on n1.
@pytest.mark.parametrize("nodes, dead, nodes_left, accounting", [
    ("n1", "n1", "n2", False), ("n1", "n1", "n2", True),
    ("n[1-2]", "n1", "n[2-3]", False), ("n[1-2]", "n2", "n[1,3]", False)])
def test_a_run_whose_node_dies_goes_on_elsewhere(own_cluster, workplace, nodes, dead, nodes_left,
                                                 accounting):
    cluster = own_cluster(accounting=accounting, **QUICK_TO_MISS)
    base, slurm = TINY, "time: 10"
    if nodes != "n1":
        base += ", strategy: {kind: ddp, ranks: 2}"
        slurm += ", nodes: 2"
    held = start_and_hold_both_modes(workplace, cluster, base, slurm)
    cluster.kill_node(dead)
    for work, follower, _ in held:
        check_that_it_went_on(work, follower, "node_failed", from_where_it_was=False)
        assert [record["node_list"]
                for record in work.records("launch.json")] == [nodes, nodes_left]


def test_a_run_is_restarted_as_often_as_it_may_be(cluster, workplace):
    work = workplace(cluster, experiment(ONE_RUN, TINY, "time: 10, max_restarts: 0"))
    follower, _ = start_and_hold(work)
    preempt(cluster)
    ended = work.end_of(follower)
    assert ended.returncode == 1
    assert work.attempts() == {"run": ["preempted"]}
    # The next call continues the run.
    again = work.call(*work.with_trainer())
    assert again.returncode == 0, again.stderr
    assert work.attempts() == {"run": ["preempted", "finished"]}
    check_resumption(work)


def test_restarts_with_a_new_checkpoint_count_against_no_limit(cluster, workplace):
    """They once counted. A requeue by the user is a restart, and no preemption by another job."""
    work = workplace(cluster, experiment(ONE_RUN, TINY, "time: 10, max_restarts: 1"))
    follower, ranks = start_and_hold(work)
    [row] = work.query("select slurm_job from jobs")
    for attempt in 2, 3:
        assert cluster.call("scontrol", "requeue", f"{row['slurm_job']}_0").returncode == 0
        ranks = work.hold("run", work.last_step("run", attempt - 1) + HELD, attempt)
    work.release(ranks)
    ended = work.end_of(follower)
    assert ended.returncode == 0, ended.stderr
    assert work.attempts() == {"run": ["preempted", "preempted", "finished"]}
    assert "another job" not in ended.stderr
    assert work.losses() == work.local_losses()


def test_restarts_run_out_while_nobody_watches(cluster, workplace):
    work = workplace(cluster, experiment(ONE_RUN, TINY, "time: 10, max_restarts: 1"))
    never = {"STUB_RULES": "point=run,step=1,await=/nonexistent"}
    assert work.call(*work.with_stub("--detach"), **never).returncode == 0
    [row] = work.query("select slurm_job from jobs")
    for attempt in 1, 2:
        events = work.run_folder("run") / f"attempt-{attempt}/events.rank0.jsonl"
        cluster.wait_until(f"attempt {attempt} starts", events.exists, 60)
        assert cluster.call("scontrol", "requeue", f"{row['slurm_job']}_0").returncode == 0
    cluster.wait_until("the third start gives up", lambda: cluster.queue() == [], 60)
    followed = work.call(*work.with_stub("--follow"))
    assert followed.returncode == 1, followed.stderr
    assert work.attempts() == {"run": ["preempted", "preempted"]}
    [run] = work.query("select reason from runs")
    assert run["reason"].endswith("slurm.max_restarts is reached: 2 starts in a row without a new checkpoint")


def test_a_suspension_is_no_time_of_a_step(cluster, workplace):
    work = workplace(cluster, experiment(ONE_RUN, TINY, "time: 10"))
    follower = work.start(*work.with_trainer())
    work.wait_for_step("run", HELD)
    [row] = work.query("select slurm_job from jobs")
    for command, state in ("suspend", "SUSPENDED"), ("resume", "RUNNING"):
        assert cluster.call("scontrol", command, f"{row['slurm_job']}_0").returncode == 0
        cluster.wait_until(f"the job is {state}", lambda: state in cluster.queue()[0])
    ended = work.end_of(follower)
    assert ended.returncode == 0, ended.stderr
    steps = [row["step"] for row in work.query("select step from steps where suspended order by step")]
    assert HELD < steps[0] < STEPS and len(steps) <= 4, steps  # Slurm may suspend them twice


def test_an_allocation_that_is_preempted_goes_on_with_the_rest(any_cluster, workplace):
    work = workplace(any_cluster, experiment(
        ["{name: before, train.steps: 5}",
         *ONE_RUN,
         "{name: after, train.steps: 5, train.seed: 2}"], TINY, "mode: allocation, time: 10"))
    follower, _ = start_and_hold(work)
    preempt(any_cluster)
    ended = work.end_of(follower)
    assert ended.returncode == 0, ended.stderr
    assert work.attempts() == {"before": ["finished"], "run": ["preempted", "finished"],
                               "after": ["finished"]}
    check_resumption(work)
