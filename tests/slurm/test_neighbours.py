"""Sweeps on a shared cluster: group members watch them, and limits hold for a whole sweep."""
import os
import subprocess

import pytest
from workplace import experiment

BASE = "device: cpu, train.steps: 4"
MEMBER = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
def test_a_member_who_may_not_see_the_jobs_does_not_end_their_runs(own_cluster, workplace, tmp_path):
    cluster = own_cluster(PrivateData="jobs")
    for folder in (tmp_path, *tmp_path.parents, cluster.folder, *cluster.folder.parents):
        if "pytest" in str(folder):
            folder.chmod(0o755)
    gate = tmp_path / "gate"
    work = workplace(cluster, experiment(["{name: a}", "{name: b, train.seed: 2}"], BASE))
    submitted = work.call(*work.with_stub("--detach"), STUB_RULES=f"step=3,await={gate}")
    assert submitted.returncode == 0, submitted.stderr
    work.wait_for_step("a", 2)
    subprocess.run(["chmod", "-R", "a+rwX", work.results], check=True)
    watched = subprocess.run([*MEMBER, work.runner, "status"], cwd=work.folder, text=True,
                             env={**os.environ, **cluster.environment}, capture_output=True)
    assert watched.returncode == 0, watched.stderr
    assert "unknown" not in watched.stdout, watched.stdout
    assert set(work.statuses().values()) <= {"queued", "running"}
    gate.touch()
    ended = work.call(*work.with_stub())
    assert ended.returncode == 0, ended.stderr
    assert work.attempts() == {"a": ["finished"], "b": ["finished"]}


def test_the_limit_of_parallel_runs_holds_over_split_arrays(own_cluster, workplace):
    cluster = own_cluster(MaxArraySize=3)
    points = [f"{{name: p{number}, train.seed: {number}}}" for number in range(7)]
    work = workplace(cluster, experiment(points, BASE, "time: 10, max_parallel: 2"))
    ended = work.call(*work.with_stub(), STUB_STEP_MS="100")
    assert ended.returncode == 0, ended.stderr
    assert ended.stderr.count("submitted job") == 3
    assert set(work.statuses().values()) == {"finished"}
    changes = sorted([(start["started_unix_ms"], 1) for start in work.records("launch.json")] +
                     [(end["ended_unix_ms"], -1) for end in work.records("end.json")])
    running = most = 0
    for _, change in changes:
        running += change
        most = max(most, running)
    assert most == 2
