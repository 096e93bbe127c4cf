"""One submission makes one job. No run is attempted twice or lost, even if sbatch's answer is
lost."""
import os
import shutil

import pytest
from workplace import experiment, let_all_in, status_of_another_user

BASE = "device: cpu, train.steps: 4"
POINTS = ["{name: a}", "{name: b, train.seed: 2}"]
ONCE = {"a": ["finished"], "b": ["finished"]}
TIMED_OUT = "sbatch: error: Batch job submission failed: Socket timed out on send/recv operation"


@pytest.fixture
def rounds(request):
    return range(request.config.getoption("--rounds"))


def path_with_sbatch(folder, script):
    """Returns a PATH with an sbatch that runs `script` at its first call. $SBATCH is Slurm's
    sbatch."""
    folder.mkdir()
    program = folder / "sbatch"
    program.write_text(f"#!/bin/bash\nSBATCH={shutil.which('sbatch')}\n"
                       f"mkdir {folder}/called 2>/dev/null || exec $SBATCH \"$@\"\n{script}\n")
    program.chmod(0o755)
    return f"{folder}:{os.environ['PATH']}"


def killed_while_it_submits(workplace, cluster, folder, script='$SBATCH "$@"'):
    """Returns the workplace of a runner that is killed while it waits for the answer of `script`."""
    path = path_with_sbatch(folder, f"{script}; kill -9 $PPID")
    work = workplace(cluster, experiment(POINTS, BASE), folder=f"{folder.name}.d")
    work.call(*work.with_stub(), PATH=path, status=-9)
    return work


def ended_jobs(cluster):
    cluster.wait_until("all jobs have ended", lambda: cluster.queue() == [])


def test_slurm_takes_a_job_after_sbatch_had_no_answer(cluster, workplace, tmp_path, rounds):
    for number in rounds:
        gate = tmp_path / f"gate{number}"
        path = path_with_sbatch(
            tmp_path / f"bin{number}",
            f"setsid bash -c 'until [ -e {gate} ]; do sleep 0.02; done; exec \"$@\"' - "
            f"$SBATCH \"$@\" </dev/null >{tmp_path}/late{number} 2>&1 &\n"
            f"echo '{TIMED_OUT}' >&2; exit 1")
        work = workplace(cluster, experiment(POINTS, BASE), folder=f"late{number}.d")
        if number % 2:
            gate.touch()  # the job is in the queue before the runner looks
        work.call(*work.with_stub(), PATH=path)
        gate.touch()
        cluster.wait_until("the late job has its id",
                           lambda: (tmp_path / f"late{number}").read_text().strip())
        ended_jobs(cluster)
        assert work.attempts() == ONCE
        work.call(*work.with_stub())
        assert work.attempts() == ONCE


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
def test_another_user_asks_for_the_status_of_a_killed_runners_submission(cluster, workplace, tmp_path,
                                                                       rounds):
    let_all_in(tmp_path, cluster.folder)
    for number in rounds:
        # Slurm does not answer the other user about jobs that are not theirs.
        work = killed_while_it_submits(workplace, cluster, tmp_path / f"{number}")
        seen = status_of_another_user(work)
        work.call(*work.with_stub())
        ended_jobs(cluster)
        assert work.attempts() == ONCE, seen


def test_the_site_writes_its_own_comment(cluster, workplace, tmp_path, rounds):
    for number in rounds:
        work = killed_while_it_submits(
            workplace, cluster, tmp_path / f"{number}", '$SBATCH --comment=project-7 "$@"; '
            "scontrol update job=$(squeue -ho %A | sort -n | tail -1) comment=project-7")
        work.call(*work.with_stub())
        ended_jobs(cluster)
        assert work.attempts() == ONCE


def test_a_nodes_clock_is_behind_and_slurm_has_forgotten_the_job(own_cluster, workplace, tmp_path,
                                                               rounds):
    cluster = own_cluster(MinJobAge=2)
    for number in rounds:
        work = killed_while_it_submits(workplace, cluster, tmp_path / f"{number}")
        cluster.wait_until("both have ended", lambda: len(work.records("end.json")) == 2)
        for file in work.results.glob("runs/*/*/attempt-1/launch.json"):
            text = file.read_text()
            started = text.split('"started_unix_ms":')[1].split(",")[0].strip()
            file.write_text(text.replace(started, str(int(started) - 120_000)))
        cluster.wait_until("Slurm has forgotten the job",
                           lambda: not cluster.call(
                               "squeue", "--noheader", "--states=all").stdout)
        work.call(*work.with_stub())
        assert work.attempts() == ONCE
