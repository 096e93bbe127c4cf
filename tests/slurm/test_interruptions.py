"""A cluster interrupts runs. They continue later or elsewhere, with the same losses."""
import signal
from concurrent.futures import ThreadPoolExecutor

import pytest
from workplace import HOLDS, MODES, TINY, experiment

# With these settings a cluster soon notices a dead node.
QUICK_TO_MISS = {"SlurmdTimeout": 3, "MessageTimeout": 3}

STEPS, CHECKPOINT, HELD = 300, 100, 130
ONE_RUN = [f"{{name: run, checkpoint.every_steps: {CHECKPOINT}, train.steps: {STEPS}}}"]
# The other run has ended when the cluster acts. Its checkpoint makes it a task of the same array.
WITH_SIBLING = ["{name: before, train.steps: 5, checkpoint.every_steps: 5}", *ONE_RUN]


@pytest.fixture
def start_and_hold(workplace, hold_at_step):
    """start_and_hold(cluster, mode) starts an experiment, whose run waits after step HELD of its
    first attempt. Returns the workplace, the follower and the stopped ranks."""

    def start(cluster, mode="per_run", base=TINY, slurm="time: 10", points=ONE_RUN, later_holds=()):
        work = workplace(cluster, experiment(
            points, base, f"mode: {mode}, {slurm}, "
            f"environment: [LD_PRELOAD={hold_at_step}, HOLD_FOLDER={HOLDS}]"), folder=mode)
        for attempt, step in [(1, HELD), *later_holds]:
            work.let_wait(step, attempt)
        return work, work.start(*work.with_trainer()), work.hold("run")

    return start


@pytest.fixture
def start_and_hold_both_modes(start_and_hold):
    """Starts both modes side by side, to save time."""

    def start(cluster, **options):
        with ThreadPoolExecutor() as pool:
            return list(pool.map(lambda mode: start_and_hold(cluster, mode, **options), MODES))

    return start


def check_that_it_went_on(work, follower, interrupted_as, from_where_it_was=True, siblings=None):
    work.end_of(follower)
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


def test_a_time_limit_comes_and_the_run_goes_on(any_cluster, start_and_hold_both_modes):
    """Slurm looks every 30 s if a job is near its end. Here that is so once the run stands still."""
    held = start_and_hold_both_modes(any_cluster, slurm="time: 30, signal_before_end_s: 540",
                                     points=WITH_SIBLING)

    def limit(work, minutes):
        job = work.records("launch.json")[-1]["slurm_job"]
        changed = any_cluster.call("scontrol", "update", f"job={job}", f"timelimit={minutes}")
        assert changed.returncode == 0, changed.stderr

    for work, _, _ in held:
        limit(work, 9)
    for work, _, ranks in held:
        work.wait_for_signal(signal.SIGUSR1, ranks)
        limit(work, 30)
        work.release(ranks)
    for work, follower, _ in held:
        check_that_it_went_on(work, follower, "time_limit", siblings={"before": ["finished"]})
        assert len(work.query("select * from jobs")) == 1


def test_a_time_limit_ends_a_run_that_keeps_no_checkpoints(cluster, workplace, tmp_path):
    work = workplace(cluster, experiment(
        ["{name: run}"], "device: cpu, train.steps: 4",
        f"time: 1, environment: ['STUB_RULES=step=3,await={tmp_path}/never']"))
    ended = work.call(*work.with_stub(), status=1)
    assert work.attempts() == {"run": ["time_limit"]}
    assert "time limit" in ended.stderr


def preempt(cluster):
    """Preempts by a job that takes all nodes. Slurm sends SIGCONT with SIGTERM, so no rank stays
    stopped."""
    taken = cluster.call("sbatch", "--partition=high", "--nodes=3", "--exclusive",
                         "--output=/dev/null", "--wrap=sleep 1")
    assert taken.returncode == 0, taken.stderr


@pytest.mark.parametrize("partition", ["main", "cancel"])
def test_a_preempted_run_goes_on(any_cluster, start_and_hold, partition):
    work, follower, _ = start_and_hold(any_cluster, slurm=f"partition: {partition}, time: 10")
    preempt(any_cluster)
    check_that_it_went_on(work, follower, "preempted")
    [row] = work.query("select reason from attempts where status = 'preempted'")
    # If a job continues, Slurm does not say who requeued it.
    assert row["reason"].startswith("the job was requeued, by a preemption or by scontrol requeue"
                                    if partition == "main" else "another job took the nodes")
    # In one partition Slurm requeues the job, in the other the runner submits another.
    assert len(work.query("select * from jobs")) == (1 if partition == "main" else 2)


def test_a_run_that_is_preempted_with_a_grace_time_goes_on(cluster, start_and_hold_both_modes):
    held = start_and_hold_both_modes(cluster, slurm="partition: grace, time: 10", points=WITH_SIBLING)
    preempt(cluster)
    for work, follower, _ in held:
        check_that_it_went_on(work, follower, "preempted", siblings={"before": ["finished"]})
        assert len(work.query("select * from jobs")) == 1


# The nodes at the start, the node that dies, and the nodes afterwards. Stopped ranks do not notice
# a rank's end before Slurm does. The batch script runs on n1.
@pytest.mark.parametrize("nodes, dead, nodes_left, accounting", [
    ("n1", "n1", "n2", False), ("n1", "n1", "n2", True),
    ("n[1-2]", "n1", "n[2-3]", False), ("n[1-2]", "n2", "n[1,3]", False)])
def test_a_run_whose_node_dies_goes_on_elsewhere(own_cluster, start_and_hold_both_modes, nodes, dead,
                                                 nodes_left, accounting):
    cluster = own_cluster(accounting=accounting, **QUICK_TO_MISS)
    two = {"base": f"{TINY}, strategy: {{kind: ddp, ranks: 2}}", "slurm": "time: 10, nodes: 2"}
    held = start_and_hold_both_modes(cluster, **({} if nodes == "n1" else two))
    cluster.kill_node(dead)
    for work, follower, _ in held:
        check_that_it_went_on(work, follower, "node_failed", from_where_it_was=False)
        assert [record["node_list"]
                for record in work.records("launch.json")] == [nodes, nodes_left]


def test_a_node_that_is_set_down_fails_no_run(own_cluster, start_and_hold_both_modes):
    """srun then says "Node failure on n1" and exits with status 0. The run failed for good, in an
    allocation with all later runs, and rows were missing of a rank that went on there."""
    cluster = own_cluster(KillWait=60)
    later = "{name: after, train.steps: 5, train.seed: 2, checkpoint.every_steps: 5}"
    held = start_and_hold_both_modes(cluster, points=[*ONE_RUN, later])
    down = cluster.call("scontrol", "update", "nodename=n1", "state=down", "reason=test")
    assert down.returncode == 0, down.stderr
    for work, _, ranks in held:
        work.release(ranks)
    for work, follower, _ in held:
        work.end_of(follower)
        assert work.attempts() == {"run": ["node_failed", "finished"], "after": ["finished"]}
        check_resumption(work)


def test_a_run_is_restarted_as_often_as_it_may_be(cluster, start_and_hold):
    work, follower, _ = start_and_hold(cluster, slurm="time: 10, max_restarts: 0")
    preempt(cluster)
    work.end_of(follower, status=1)
    assert work.attempts() == {"run": ["preempted"]}
    # The next call continues the run.
    work.call(*work.with_trainer())
    assert work.attempts() == {"run": ["preempted", "finished"]}
    check_resumption(work)


def test_a_rerun_that_is_preempted_goes_on(cluster, start_and_hold):
    """It once began anew, as its run still had the earlier result."""
    work, follower, ranks = start_and_hold(cluster, slurm="partition: cancel, time: 10")
    work.release(ranks)
    work.end_of(follower)
    work.let_wait(HELD, attempt=2)
    follower = work.start(*work.with_trainer("--rerun"))
    work.hold("run", attempt=2)
    preempt(cluster)
    work.end_of(follower)
    assert work.attempts() == {"run": ["finished", "preempted", "finished"]}
    [first] = work.query("select min(step) as step from steps where attempt = 3")
    assert first["step"] > HELD


def test_restarts_with_a_new_checkpoint_count_against_no_limit(cluster, start_and_hold):
    """They once counted. A requeue by the user is a restart, and no preemption by another job.

    On a busy node, the ranks go on for some hundred steps from Slurm's SIGCONT to its SIGTERM."""
    holds = [(1, HELD), (2, 900), (3, 1700)]
    work, follower, ranks = start_and_hold(
        cluster, slurm="time: 10, max_restarts: 1", later_holds=holds[1:],
        points=["{name: run, checkpoint.every_steps: 800, train.steps: 2500}"])
    [row] = work.query("select slurm_job from jobs")
    for attempt, _ in holds[1:]:
        assert cluster.call("scontrol", "requeue", f"{row['slurm_job']}_0").returncode == 0
        ranks = work.hold("run", attempt)
    work.release(ranks)
    ended = work.end_of(follower)
    assert work.attempts() == {"run": ["preempted", "preempted", "finished"]}
    assert "another job" not in ended.stderr and "the clock of" not in ended.stderr
    assert work.losses() == work.local_losses()


def test_restarts_run_out_while_nobody_watches(cluster, workplace):
    work = workplace(cluster, experiment(ONE_RUN, TINY, "time: 10, max_restarts: 1"))
    never = {"STUB_RULES": "point=run,step=1,await=/nonexistent"}
    work.call(*work.with_stub("--detach"), **never)
    [row] = work.query("select slurm_job from jobs")
    for attempt in 1, 2:
        events = work.run_folder("run") / f"attempt-{attempt}/events.rank0.jsonl"
        cluster.wait_until(f"attempt {attempt} starts", events.exists)
        assert cluster.call("scontrol", "requeue", f"{row['slurm_job']}_0").returncode == 0
    cluster.wait_until("the third start gives up", lambda: cluster.queue() == [])
    work.call(*work.with_stub("--follow"), status=1)
    assert work.attempts() == {"run": ["preempted", "preempted"]}
    [run] = work.query("select reason from runs")
    assert run["reason"].endswith("slurm.max_restarts is reached: 2 starts in a row without a new checkpoint")


def test_a_suspension_is_no_time_of_a_step(cluster, start_and_hold):
    """Slurm suspends the stopped ranks, and its SIGCONT lets them go on."""
    work, follower, ranks = start_and_hold(cluster)
    [row] = work.query("select slurm_job from jobs")
    for command, state in ("suspend", "SUSPENDED"), ("resume", "RUNNING"):
        assert cluster.call("scontrol", command, f"{row['slurm_job']}_0").returncode == 0
        cluster.wait_until(f"the job is {state}", lambda: state in cluster.queue()[0])
        if command == "suspend":  # on a busy node, it could otherwise come behind the SIGCONT
            work.wait_for_signal(signal.SIGSTOP, ranks)
    work.end_of(follower)
    steps = [row["step"] for row in work.query("select step from steps where suspended order by step")]
    assert HELD < steps[0] < STEPS and len(steps) <= 4, steps  # Slurm may suspend them twice


def test_an_allocation_that_is_preempted_goes_on_with_the_rest(any_cluster, start_and_hold):
    work, follower, _ = start_and_hold(any_cluster, "allocation", points=[
        "{name: before, train.steps: 5}", *ONE_RUN, "{name: after, train.steps: 5, train.seed: 2}"])
    preempt(any_cluster)
    work.end_of(follower)
    assert work.attempts() == {"before": ["finished"], "run": ["preempted", "finished"],
                               "after": ["finished"]}
    check_resumption(work)
