"""Tests the cluster on which the other tests run."""
import subprocess
import sys
from pathlib import Path

import cluster as cluster_script
import pytest
from cluster import Cluster
from configuration import NODES
from host_processes import program_of


def start(folder, *options, **environment):
    return subprocess.run([sys.executable, cluster_script.__file__, "start", folder, *options],
                          capture_output=True, text=True, **environment)


def test_a_job_runs_across_nodes(cluster):
    ranks = cluster.call("srun", "--nodes=2", "--ntasks-per-node=2", "--gres=gpu:2", "bash", "-c",
                         "echo $SLURMD_NODENAME $SLURM_LOCALID $CUDA_VISIBLE_DEVICES")
    assert sorted(ranks.stdout.splitlines()) == ["n1 0 0,1", "n1 1 0,1", "n2 0 0,1", "n2 1 0,1"]


def test_accounting_knows_a_job_that_the_controller_forgot(accounting_cluster):
    cluster = accounting_cluster
    job = cluster.call("sbatch", "--parsable", "--output=/dev/null", "--wrap=true").stdout.strip()
    cluster.wait_until("slurmctld has forgotten it",
                       lambda: cluster.call("scontrol", "show", "job", job).returncode != 0)
    cluster.wait_until("sacct knows it", lambda: cluster.call(
        "sacct", "--noheader", "--allocations", f"--jobs={job}",
        "--format=State").stdout.split() == ["COMPLETED"])


def test_two_clusters_side_by_side_and_nothing_is_left(tmp_path_factory):
    one, two = tmp_path_factory.mktemp("one"), tmp_path_factory.mktemp("two")
    first, second = start(one), start(two, "MaxArraySize=7")
    assert first.stdout == f"export SLURM_CONF={one}/slurm.conf\n"
    assert second.stdout == f"export SLURM_CONF={two}/slurm.conf\n"
    assert "MaxArraySize            = 7\n" in Cluster(two).call("scontrol", "show", "config").stdout
    # A process that leaves its job's process group and session.
    Cluster(one).call("sbatch", "--output=/dev/null", "--wrap=setsid sleep 1000 & sleep 1000")
    started = Cluster(one)
    started.wait_until("the job runs", lambda: any(
        Path(program_of(process)).name == "sleep" for process in started.processes()))
    for folder in (one, two):
        assert Cluster(folder).processes() != []
        subprocess.run([sys.executable, cluster_script.__file__, "stop", folder], check=True)
        assert Cluster(folder).processes() == []


@pytest.mark.parametrize("broken", ["slurmctld", "slurmd", "munged"])
def test_a_start_that_fails_says_why_and_leaves_nothing(tmp_path, tmp_path_factory, broken):
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / broken).write_text("#!/bin/sh\necho no room for me\nexit 1\n")
    (programs / broken).chmod(0o755)
    folder = tmp_path_factory.mktemp("cluster")
    failed = start(folder, env={"PATH": f"{programs}:/usr/bin:/bin:/usr/sbin:/sbin"})
    assert failed.returncode == 1
    assert "no room for me" in failed.stderr
    assert f"the cluster did not start: {broken}" in failed.stderr
    assert Cluster(folder).processes() == []


def test_a_path_that_is_too_long_for_the_sockets_of_jobs_is_refused(tmp_path):
    failed = start(tmp_path / ("long" * 20))
    assert failed.returncode == 1
    assert "the path is too long for the sockets of jobs" in failed.stderr


def test_a_node_dies_and_comes_back_and_so_does_the_controller(own_cluster):
    cluster = own_cluster(SlurmdTimeout=3)
    cluster.kill_node("n2")
    cluster.wait_until("n2 is missed", lambda: "down" in cluster.call(
        "sinfo", "--noheader", "--nodes=n2", "--partition=main", "--format=%t").stdout)
    cluster.start_node("n2")
    cluster.stop_controller()
    assert cluster.call("squeue").returncode != 0
    cluster.start_controller()
    cluster.wait_until("n2 is back", cluster.is_idle)
    assert len(cluster.call("srun", "--nodes=3", "hostname").stdout.split()) == len(NODES)
