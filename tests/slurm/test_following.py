"""Followers start and stop at any time. No run is lost, and none is done twice."""
import os
import shutil
import signal

from workplace import experiment, modes

THREE = ["{name: a}", "{name: b, train.seed: 2}", "{name: c, train.seed: 3}"]
ALL_FINISHED = {point: ["finished"] for point in "abc"}


def steps(work):
    return work.query("select point, count(*) as steps from steps join runs on run = runs.id "
                      "group by point order by point")


@modes
def test_a_detached_runner_is_gone_and_the_report_complete(any_cluster, workplace, mode):
    work = workplace(any_cluster, experiment(THREE, "device: cpu, train.steps: 5", f"mode: {mode}"))
    submitted = work.call(*work.with_stub("--detach"))
    [job] = {row["slurm_job"] for row in work.query("select slurm_job from jobs")}
    assert job in submitted.stdout + submitted.stderr
    any_cluster.wait_until("the jobs have ended", lambda: any_cluster.queue() == [])
    report = work.call("report", work.file, "--format", "csv")
    assert report.stdout.count("finished") == 3
    assert work.attempts() == ALL_FINISHED
    assert steps(work) == [{"point": point, "steps": 5} for point in "abc"]


@modes
def test_a_runner_killed_while_it_follows_is_replaced_by_the_next(cluster, workplace, gate,
                                                                  mode):
    work = workplace(cluster, experiment(
        THREE, "device: cpu, train.steps: 20",
        f"mode: {mode}, environment: ['STUB_RULES=step=10,await={gate}']"))
    first = work.start(*work.with_stub())
    work.wait_for_step("a", 9)
    first.send_signal(signal.SIGKILL)
    work.end_of(first, status=-signal.SIGKILL)
    second = work.start(*work.with_stub("--follow"))
    gate.touch()
    work.end_of(second)
    assert work.attempts() == ALL_FINISHED
    assert steps(work) == [{"point": point, "steps": 20} for point in "abc"]
    assert len(work.query("select * from jobs")) == 1


def test_a_runner_killed_while_it_submits_submits_nothing_twice(cluster, workplace, tmp_path):
    work = workplace(cluster, experiment(THREE, "device: cpu, train.steps: 2"))
    # This sbatch submits, but never answers.
    programs = tmp_path / "programs"
    programs.mkdir()
    submitted = tmp_path / "submitted"
    (programs / "sbatch").write_text(f"#!/bin/sh\n/usr/bin/sbatch \"$@\" >/dev/null\n"
                                     f"echo $$ >{submitted}\nexec sleep 1000\n")
    (programs / "sbatch").chmod(0o755)
    first = work.start(*work.with_stub(), PATH=f"{programs}:{os.environ['PATH']}")
    cluster.wait_until("the job is submitted",
                       lambda: submitted.exists() and submitted.read_text().endswith("\n"))
    first.kill()
    first.wait()
    os.kill(int(submitted.read_text()), signal.SIGKILL)
    work.call(*work.with_stub())
    assert work.attempts() == ALL_FINISHED
    assert len(work.query("select * from jobs")) == 1


@modes
def test_the_index_is_deleted_again_and_again(cluster, workplace, gate, mode):
    work = workplace(cluster, experiment(
        THREE, "device: cpu, train.steps: 4",
        f"mode: {mode}, environment: ['STUB_RULES=step=3,await={gate}']"))
    index = work.results / "results.sqlite"

    def after_a_loss(*arguments):
        index.unlink()
        return work.call(*arguments)

    work.call(*work.with_stub("--detach"))
    work.wait_for_step("a", 2)
    assert "running" in after_a_loss("status").stdout
    again = after_a_loss(*work.with_stub("--detach"))
    assert "3 runs in jobs already" in again.stderr
    index.unlink()
    follower = work.start(*work.with_stub("--follow"))
    cluster.wait_until("the follower makes the index anew", index.exists)
    index.unlink()
    gate.touch()
    work.end_of(follower)
    assert work.attempts() == ALL_FINISHED
    report = work.call("report", work.file, "--format", "csv").stdout
    assert after_a_loss("report", work.file, "--format", "csv").stdout == report
    assert "3 finished" in after_a_loss("status", "--all").stdout
    after_a_loss(*work.with_stub())
    assert work.call("report", work.file, "--format", "csv").stdout == report
    assert work.attempts() == ALL_FINISHED
    assert len(work.query("select * from jobs")) == 1


def test_the_user_ends_following_and_not_the_jobs(cluster, workplace, gate):
    work = workplace(cluster, experiment(
        THREE, "device: cpu, train.steps: 4",
        f"environment: ['STUB_RULES=step=2,await={gate}']"))
    first = work.start(*work.with_stub())
    work.wait_for_step("a", 1)
    first.send_signal(signal.SIGINT)
    ended = work.end_of(first, status=130)
    assert "fsdp-run cancel" in ended.stderr
    assert len(cluster.queue()) == 3
    gate.touch()
    work.call(*work.with_stub("--follow"))
    assert work.attempts() == ALL_FINISHED


def test_runs_of_jobs_are_not_launched_again(cluster, workplace, gate):
    work = workplace(cluster, experiment(
        THREE, "device: cpu, train.steps: 4", f"environment: ['STUB_RULES=step=2,await={gate}']"))
    work.call(*work.with_stub("--detach"))
    here = work.call(work.file, "--trainer", work.stub_trainer)
    again = work.call(*work.with_stub("--detach"))
    assert "3 runs left to the Slurm jobs that have them" in here.stderr
    assert "3 runs in jobs already" in again.stderr
    assert len(cluster.queue()) == 3
    gate.touch()
    work.call(*work.with_stub("--follow"))
    assert work.attempts() == ALL_FINISHED
    assert len(work.query("select * from jobs")) == 1


@modes
def test_cancel_ends_what_runs_and_what_waits(any_cluster, workplace, tmp_path, mode):
    work = workplace(any_cluster, experiment(
        THREE, "device: cpu, train.steps: 4, checkpoint.every_steps: 1000",
        f"mode: {mode}, max_parallel: 1, "
        f"environment: ['STUB_RULES=step=3,await={tmp_path}/never']"))
    work.call(*work.with_stub("--detach"))
    work.wait_for_step("a", 2)
    work.call("cancel", work.file)
    any_cluster.wait_until("no job is left", lambda: any_cluster.queue() == [])
    work.call("report", work.file)
    assert work.statuses() == {point: "cancelled" for point in "abc"}
    assert work.attempts() == {"a": ["cancelled"]}


def test_cancel_ended_a_job_of_others_after_job_ids_began_anew(own_cluster, workplace):
    cluster = own_cluster()
    work = workplace(cluster, experiment(["{name: a}"], "device: cpu", "partition: closed, time: 10"))
    work.call(*work.with_stub("--detach"))
    [own] = work.query("select slurm_job from jobs")
    cluster.stop_controller()
    shutil.rmtree(cluster.folder / "state")
    (cluster.folder / "state").mkdir()
    cluster.start_controller()
    other = cluster.call("sbatch", "--parsable", "--array=0", "--output=/dev/null", "--wrap=sleep 600")
    assert other.stdout.strip() == own["slurm_job"], other.stderr
    cluster.wait_until("the other job runs", lambda: "RUNNING" in cluster.queue()[0])
    told = work.call("cancel", work.file)
    assert "no job to cancel" in told.stdout
    assert "RUNNING" in cluster.queue()[0]
    assert work.statuses() == {"a": "unknown"}
    cluster.call("scancel", own["slurm_job"])


def test_two_jobs_attempted_one_run_after_a_requeue(cluster, workplace, gate):
    """An ended job is queued again while the run is in another job."""
    work = workplace(cluster, experiment(["{name: a}"], "device: cpu, train.steps: 4",
                                         f"time: 10, environment: ['STUB_RULES=step=3,await={gate}']"))
    for attempt in 1, 2:
        work.call(*work.with_stub("--detach"))
        work.wait_for_step("a", 2, attempt)
        if attempt == 1:
            work.call("cancel", work.file)
    old, _ = (row["slurm_job"] for row in work.query("select slurm_job from jobs order by id"))
    requeued = cluster.call("scontrol", "requeue", f"{old}_0")
    assert requeued.returncode == 0, requeued.stderr
    [output] = work.results.glob(f"slurm/*/{old}_0.out")
    cluster.wait_until("the old job leaves it alone",
                       lambda: "a: left alone, because a later call has taken it" in output.read_text())
    gate.touch()
    work.call(*work.with_stub("--follow"))
    assert work.attempts() == {"a": ["cancelled", "finished"]}


@modes
def test_logs_of_a_rank(cluster, workplace, mode):
    work = workplace(cluster, experiment(
        ["{name: two, strategy: {kind: ddp, ranks: 2}}"], "device: cpu, train.steps: 2",
        f"mode: {mode}"))
    work.call(*work.with_stub())
    for rank in ("0", "1"):
        logs = work.call("logs", "two", "--rank", rank)
        assert f"stub trainer, rank {rank}" in logs.stdout


def test_jobs_that_slurm_has_forgotten(accounting_cluster, own_cluster, workplace, tmp_path):
    """Files of ranks tell how they ended. Only sacct knows what killed them."""
    expected = {"with": "cancelled", "without": "unknown"}
    works = {}
    for name, cluster in (("with", accounting_cluster), ("without", own_cluster(MinJobAge=2))):
        works[name] = work = workplace(cluster, experiment(
            ["{name: done}", "{name: killed, train.seed: 2}", "{name: waits, train.seed: 3}",
             "{name: waits too, train.seed: 4}"],
            "device: cpu, train.steps: 4",
            # Only SIGKILL ends this run, and it also ends the job's script, which would report it.
            f"max_parallel: 1, environment: ['STUB_RULES=point=killed,deaf=1; point=killed,step=3,"
            f"await={tmp_path}/never']"), folder=name)
        work.call(*work.with_stub("--detach"))
        work.wait_for_step("killed", 2)
        [row] = work.query("select slurm_job from jobs")
        cluster.wait_until("one has finished", lambda: len(cluster.queue()) == 3)
        cluster.call("scancel", row["slurm_job"])
        cluster.wait_until("slurmctld has forgotten them", lambda: cluster.call(
            "scontrol", "show", "job", row["slurm_job"]).returncode != 0)
    for name, work in works.items():
        work.call("report", work.file)
        assert work.statuses() == {"done": "finished", "killed": expected[name],
                                   "waits": expected[name], "waits too": expected[name]}
