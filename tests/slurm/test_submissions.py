"""One submission makes one job. No run is attempted twice or lost, even if sbatch's answer is
lost."""
import os
import shutil
import subprocess

import pytest
from workplace import experiment

BASE = "device: cpu, train.steps: 4"
POINTS = ["{name: a}", "{name: b, train.seed: 2}"]
ONCE = {"a": ["finished"], "b": ["finished"]}
TIMED_OUT = "sbatch: error: Batch job submission failed: Socket timed out on send/recv operation"
# The parent of sbatch is the runner, which waits for sbatch's answer.
KILL_RUNNER = "kill -9 $PPID"


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


def ended_jobs(cluster):
    cluster.wait_until("all jobs have ended", lambda: cluster.queue() == [], 60)


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
        ended = work.call(*work.with_stub(), PATH=path)
        gate.touch()
        assert ended.returncode == 0, ended.stderr
        cluster.wait_until("the late job has its id",
                           lambda: (tmp_path / f"late{number}").read_text().strip())
        ended_jobs(cluster)
        assert work.attempts() == ONCE
        again = work.call(*work.with_stub())
        assert again.returncode == 0, again.stderr
        assert work.attempts() == ONCE


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
def test_another_user_asks_for_the_status_of_a_killed_runners_submission(cluster, workplace, tmp_path,
                                                                       rounds):
    # pytest's folders are for its own user only.
    for folder in (tmp_path, *tmp_path.parents, cluster.folder, *cluster.folder.parents):
        if "pytest" not in str(folder):
            continue
        folder.chmod(0o755)
    for number in rounds:
        # Slurm does not answer the other user about jobs that are not theirs.
        path = path_with_sbatch(tmp_path / f"bin{number}", f'$SBATCH "$@"; {KILL_RUNNER}')
        work = workplace(cluster, experiment(POINTS, BASE), folder=f"shared{number}")
        assert work.call(*work.with_stub(), PATH=path).returncode == -9
        subprocess.run(["chmod", "-R", "a+rwX", work.results], check=True)
        looked = subprocess.run(
            ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", work.runner, "status"],
            cwd=work.folder, env={**os.environ, **cluster.environment}, capture_output=True,
            text=True)
        assert looked.returncode == 0, looked.stderr + looked.stdout
        again = work.call(*work.with_stub())
        assert again.returncode == 0, looked.stderr + again.stderr
        ended_jobs(cluster)
        assert work.attempts() == ONCE, looked.stdout


def test_the_site_writes_its_own_comment(cluster, workplace, tmp_path, rounds):
    for number in rounds:
        path = path_with_sbatch(
            tmp_path / f"bin{number}",
            f'$SBATCH --comment=project-7 "$@"; scontrol update job=$(squeue -ho %A | sort -n | tail -1) '
            f"comment=project-7; {KILL_RUNNER}")
        work = workplace(cluster, experiment(POINTS, BASE), folder=f"comment{number}")
        assert work.call(*work.with_stub(), PATH=path).returncode == -9
        again = work.call(*work.with_stub())
        assert again.returncode == 0, again.stderr
        ended_jobs(cluster)
        assert work.attempts() == ONCE


def test_a_nodes_clock_is_behind_and_slurm_has_forgotten_the_job(own_cluster, workplace, tmp_path,
                                                               rounds):
    cluster = own_cluster(MinJobAge=2)
    for number in rounds:
        path = path_with_sbatch(tmp_path / f"bin{number}", f'$SBATCH "$@"; {KILL_RUNNER}')
        work = workplace(cluster, experiment(POINTS, BASE), folder=f"clock{number}")
        assert work.call(*work.with_stub(), PATH=path).returncode == -9
        cluster.wait_until("both have ended", lambda: len(work.records("end.json")) == 2)
        for file in work.results.glob("runs/*/*/attempt-1/launch.json"):
            text = file.read_text()
            started = text.split('"started_unix_ms":')[1].split(",")[0].strip()
            file.write_text(text.replace(started, str(int(started) - 120_000)))
        cluster.wait_until("Slurm has forgotten the job",
                           lambda: not cluster.call(
                               "squeue", "--noheader", "--states=all").stdout, 60)
        again = work.call(*work.with_stub())
        assert again.returncode == 0, again.stderr
        assert work.attempts() == ONCE
