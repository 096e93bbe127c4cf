"""Sweeps on a shared cluster: group members watch them, and limits hold for a whole sweep."""
import os

import pytest
from workplace import experiment, let_all_in, status_of_another_user

BASE = "device: cpu, train.steps: 4"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
def test_a_member_who_may_not_see_the_jobs_does_not_end_their_runs(own_cluster, workplace, tmp_path, gate):
    cluster = own_cluster(PrivateData="jobs")
    let_all_in(tmp_path, cluster.folder)
    work = workplace(cluster, experiment(["{name: a}", "{name: b, train.seed: 2}"], BASE))
    work.call(*work.with_stub("--detach"), STUB_RULES=f"step=3,await={gate}")
    work.wait_for_step("a", 2)
    watched = status_of_another_user(work)
    assert "unknown" not in watched, watched
    assert set(work.statuses().values()) <= {"queued", "running"}
    gate.touch()
    work.call(*work.with_stub())
    assert work.attempts() == {"a": ["finished"], "b": ["finished"]}


def test_a_detached_call_whose_runs_are_not_all_in_jobs_fails(cluster, workplace, tmp_path):
    """A limit on submitted jobs once left runs in no job, and the call ended with 0."""
    points = [f"{{name: p{number}, train.seed: {number}}}" for number in range(3)]
    work = workplace(cluster, experiment(points, BASE))
    (tmp_path / "programs").mkdir()
    sbatch = tmp_path / "programs/sbatch"
    sbatch.write_text(f"""#!/bin/sh
        for script; do :; done
        grep -q -- --array=0-0 "$script" && mkdir {tmp_path}/one 2>/dev/null && exec /usr/bin/sbatch "$@"
        echo "sbatch: error: AssocMaxSubmitJobLimit" >&2; exit 1""")
    sbatch.chmod(0o755)
    ended = work.call(*work.with_stub("--detach"), status=1, PATH=f"{sbatch.parent}:{os.environ['PATH']}")
    assert "2 runs not submitted, because a limit on submitted jobs is reached" in ended.stderr
    work.call(*work.with_stub())
    assert set(work.statuses().values()) == {"finished"}


def test_check_splits_arrays_as_the_cluster_asks_before_it_asks_slurm(own_cluster, workplace):
    cluster = own_cluster(MaxArraySize=3)
    points = [f"{{name: p{number}, train.seed: {number}}}" for number in range(7)]
    work = workplace(cluster, experiment(points, BASE))
    told = work.call("check", work.file, "--launcher", "slurm", status=None)
    assert "refuse" not in told.stdout + told.stderr, told.stdout


def test_arrays_are_split_as_the_cluster_asks_and_one_limit_of_parallel_runs_holds(own_cluster, workplace):
    cluster = own_cluster(MaxArraySize=3)
    points = [f"{{name: p{number}, train.seed: {number}}}" for number in range(7)]
    work = workplace(cluster, experiment(points, BASE, "time: 10, max_parallel: 2"))
    ended = work.call(*work.with_stub(), STUB_STEP_MS="100")
    assert ended.stderr.count("submitted job") == 3
    jobs = [record["slurm_job"].split("_")[0] for record in work.records("launch.json")]
    assert [jobs.count(job) for job in dict.fromkeys(jobs)] == [3, 3, 1]
    assert set(work.statuses().values()) == {"finished"}
    assert work.most_at_once() == 2
