"""What a cluster does to runs: they go on elsewhere, later, to the same losses."""
import signal

import pytest
from workplace import TINY, experiment

# Each of a few milliseconds: a run is held in the middle of them while the cluster acts.
STEPS = 300
ONE_RUN = [f"{{name: run, checkpoint.every_steps: 50, train.steps: {STEPS}}}"]


def start_and_hold(work, step):
    """A follower and the ranks of its run, which stand still behind this step."""
    follower = work.start(*work.with_trainer())
    return follower, work.hold("run", step)


def check_that_it_went_on(work, follower, interrupted_as):
    ended = work.end_of(follower)
    assert ended.returncode == 0, ended.stderr
    assert work.attempts() == {"run": [interrupted_as, "finished"]}
    assert work.losses() == work.local_losses()
    [resumed] = work.query("select min(step) as step from steps where attempt = 2 and rank = 0")
    assert resumed["step"] > 50
    return resumed["step"]


def test_a_time_limit_comes_and_the_run_goes_on(any_cluster, workplace):
    # Slurm may send the signal up to a minute early, here as soon as it looks: within 30 s.
    work = workplace(any_cluster, experiment(ONE_RUN, TINY, "time: 2, signal_before_end_s: 110"))
    follower, ranks = start_and_hold(work, 60)
    work.release_when_sent(signal.SIGUSR1, ranks)
    # It had the time to write a checkpoint where it was.
    assert check_that_it_went_on(work, follower, "time_limit") % 50 != 1


def preempt(cluster):
    """By a job that takes all nodes. Slurm sends SIGCONT with the SIGTERM, so nobody stays held."""
    taken = cluster.call("sbatch", "--partition=high", "--nodes=3", "--exclusive",
                         "--output=/dev/null", "--wrap=sleep 1")
    assert taken.returncode == 0, taken.stderr


@pytest.mark.parametrize("partition", ["main", "cancel"])
def test_a_preempted_run_goes_on(cluster, workplace, partition):
    work = workplace(cluster, experiment(ONE_RUN, TINY, f"partition: {partition}, time: 10"))
    follower, _ = start_and_hold(work, 60)
    preempt(cluster)
    assert check_that_it_went_on(work, follower, "preempted") % 50 != 1
    # In one partition Slurm requeues the job, in the other the runner submits another.
    assert len(work.query("select * from jobs")) == (1 if partition == "main" else 2)


def test_a_run_whose_node_dies_goes_on_elsewhere(own_cluster, workplace):
    cluster = own_cluster(SlurmdTimeout=3)
    work = workplace(cluster, experiment(ONE_RUN, TINY))
    follower, _ = start_and_hold(work, 60)
    [first] = work.records("launch.json")
    cluster.kill_node(first["node_list"])
    assert check_that_it_went_on(work, follower, "node_failed") == 51
    _, second = work.records("launch.json")
    assert second["node_list"] != first["node_list"]


def test_a_run_is_restarted_as_often_as_it_may_be(cluster, workplace):
    work = workplace(cluster, experiment(ONE_RUN, TINY, "time: 10, max_restarts: 0"))
    follower, _ = start_and_hold(work, 60)
    preempt(cluster)
    ended = work.end_of(follower)
    assert ended.returncode == 1
    assert work.attempts() == {"run": ["preempted"]}
    # The next call goes on where it was.
    again = work.call(*work.with_trainer())
    assert again.returncode == 0, again.stderr
    assert work.attempts() == {"run": ["preempted", "finished"]}
    assert work.losses() == work.local_losses()
