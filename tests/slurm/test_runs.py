"""Undisturbed runs: both modes, nodes, arrays and names, with their losses and rows."""
import re
import socket
from contextlib import ExitStack
from pathlib import Path

from configuration import user_name
from host_processes import processes
from workplace import TINY, experiment, modes

EXPERIMENTS = Path(__file__).parents[2] / "experiments"
LAB, CHESS = EXPERIMENTS / "lab.yaml", EXPERIMENTS / "chess.yaml"
SHORT = ["--profile", "cpu", "--set", "train.max_steps=2", "--set", "data.sequence_length=32",
         "--set", "threads_per_rank=1"]


@modes
def test_the_lab_on_a_cluster_has_the_losses_of_the_lab_here(cluster, workplace, mode):
    work = workplace(cluster, LAB.read_text())
    ended = work.call(*work.with_trainer(*SHORT, "--set", f"slurm.mode={mode}"))
    expected = work.local_losses(*SHORT)
    assert list(expected) == ["1 GPU", "4xDDP", "4xFSDP", "FSDP batch 8", "offload"]
    assert work.losses() == expected
    assert work.attempts() == {point: ["finished"] for point in expected}
    for point in expected:
        assert point in ended.stdout
    # One array has the runs of 4 tasks, and one job the single rank. Or one allocation has all
    # runs.
    jobs = {record["slurm_job"].split("_")[0] for record in work.records("launch.json")}
    assert len(jobs) == (1 if mode == "allocation" else 2)


def test_the_chess_experiment_asks_its_questions_on_a_cluster(cluster, workplace):
    work = workplace(cluster, CHESS.read_text())
    work.call(*work.with_trainer(
        "--profile", "cpu", "--set", "train.steps=1", "--set", "train.warmup_steps_excluded=0",
        "--set", "data.sequence_length=16", "--set", "batch.total=8"))
    sizes = (1, 2, 4)
    points = ["1 GPU", "DDP", "FSDP", *(f"{point}, doubled size_per_rank={size}" for size in sizes
                                        for point in ("FSDP", "FSDP, checkpointing"))]
    assert work.attempts() == {point: ["finished"] for point in points}
    assert set(work.losses()) == set(points)


def test_runs_on_gpus_are_submitted_where_there_is_none(cluster, workplace, gate):
    work = workplace(cluster, CHESS.read_text())
    follower = work.start(*work.with_stub(
        "--profile", "gpux2", "--only", "FSDP", "--set", "slurm.cpus_per_task=1",
        "--set", "slurm.time=10",
        "--set", f"slurm.environment=['STUB_RULES=await={gate}']"))
    cluster.wait_until("both ranks run", lambda: len(work.ranks("FSDP")) == 2)
    seen = [environment.get("CUDA_VISIBLE_DEVICES") for pid, environment in processes()
            if pid in work.ranks("FSDP")]
    gate.touch()
    work.end_of(follower)
    assert seen == ["0,1", "0,1"]
    assert work.attempts() == {"FSDP": ["finished"]}


@modes
def test_four_ranks_on_two_nodes_have_the_losses_of_four_ranks_here(cluster, workplace, mode):
    work = workplace(cluster, experiment(
        ["{name: FSDP, strategy: {kind: fsdp, ranks: 4}}"], f"{TINY}, train.steps: 5",
        f"mode: {mode}, time: 10, nodes: 2"))
    work.call(*work.with_trainer())
    assert work.losses() == work.local_losses()
    [launched] = work.records("launch.json")
    assert launched["node_list"] == "n[1-2]"


def test_a_job_meets_although_another_program_has_its_port(cluster, workplace):
    settings = cluster.call("scontrol", "show", "config").stdout
    job = int(re.search(r"NEXT_JOB_ID\s*=\s*(\d+)", settings).group(1))
    work = workplace(cluster, experiment(
        ["{name: DDP, strategy: {kind: ddp, ranks: 2}}"], f"{TINY}, train.steps: 2"))
    with ExitStack() as taken:
        for step in range(2):
            port = 20000 + (job * 101 + step) % 10000
            taken.enter_context(socket.create_server(("", port)))
        work.call(*work.with_trainer())
    assert work.attempts() == {"DDP": ["finished"]}


@modes
def test_the_environment_reaches_the_ranks_of_every_node(cluster, workplace, gate, mode):
    work = workplace(cluster, experiment(
        ["{name: run, strategy: {kind: ddp, ranks: 4}}"], "device: cpu, train.steps: 4",
        f"mode: {mode}, time: 10, nodes: 2, "
        f"environment: [GLOO_SOCKET_IFNAME=ib0, 'STUB_RULES=await={gate}']"))
    follower = work.start(*work.with_stub())
    cluster.wait_until("all ranks run", lambda: len(work.ranks("run")) == 4)
    ranks = work.ranks("run")
    seen = [(environment["SLURMD_NODENAME"], environment.get("GLOO_SOCKET_IFNAME"))
            for pid, environment in processes() if pid in ranks]
    assert sorted(seen) == [(node, "ib0") for node in ("n1", "n1", "n2", "n2")]
    gate.touch()
    work.end_of(follower)


def test_a_job_needs_no_home(cluster, workplace):
    work = workplace(cluster, experiment(
        ["{name: run}"], f"{TINY}, train.steps: 3", "time: 10, environment: [HOME=/nonexistent]"))
    work.call(*work.with_trainer())
    assert work.losses() == work.local_losses()


def test_an_array_runs_as_many_at_once_as_it_may(cluster, workplace, gate):
    points = [f"{{name: run{number}, train.seed: {number}}}" for number in range(5)]
    work = workplace(cluster, experiment(
        points, "device: cpu, train.steps: 4",
        f"max_parallel: 2, time: 10, environment: [STUB_STEP_MS=100, 'STUB_RULES=await={gate}']"))
    follower = work.start(*work.with_stub())
    cluster.wait_until("two run", lambda: len(work.records("launch.json")) == 2)
    cluster.wait_until("the others wait for them", lambda: [
        task.split()[1:] for task in cluster.queue()
        if "RUNNING" not in task] == [["PENDING", "JobArrayTaskLimit"]] * 3)
    gate.touch()
    ended = work.end_of(follower)
    assert set(work.statuses().values()) == {"finished"}
    started = work.records("launch.json")
    [job] = {record["slurm_job"].split("_")[0] for record in started}
    assert [record["slurm_job"] for record in started] == [f"{job}_{task}" for task in range(5)]
    assert f"job {job}" in ended.stderr
    assert work.most_at_once() == 2


def test_a_limit_on_submitted_jobs_is_waited_for(own_cluster, workplace):
    cluster = own_cluster(accounting=True, AccountingStorageEnforce="limits")
    for words in (["account", "lab"], ["user", user_name(), "account=lab", "MaxSubmitJobs=2"]):
        added = cluster.call("sacctmgr", "--immediate", "add", *words)
        assert added.returncode == 0, added.stderr
    work = workplace(cluster, experiment(
        [f"{{name: run{number}, train.seed: {number}}}" for number in range(5)],
        "device: cpu, train.steps: 2", "account: lab"))
    work.call(*work.with_stub())
    assert work.attempts() == {f"run{number}": ["finished"] for number in range(5)}
    jobs = [record["slurm_job"].split("_")[0] for record in work.records("launch.json")]
    assert max(jobs.count(job) for job in jobs) == 2


def test_a_job_that_fails_before_its_ranks_start_says_where_it_wrote_why(cluster, workplace):
    work = workplace(cluster, experiment(["{name: only}"], "device: cpu, train.steps: 2",
                                         "prologue: ['echo no such module >&2; exit 3']"))
    work.call(*work.with_stub(), status=1)
    assert work.attempts() == {}
    [row] = work.query("select status, reason from runs")
    assert row["status"] == "failed"
    [output] = work.results.glob("slurm/*/*.out")
    assert str(output.parent) in row["reason"]
    assert "no such module" in output.read_text()


def test_names_and_paths_that_a_shell_would_trip_over(cluster, workplace):
    hostile = """it's "$(touch gone)" `touch gone` $HOME ; #%j\\n & *"""
    text = experiment(["{name: only}"], "device: cpu, train.steps: 2",
                      "environment: ['WORDS=$(touch gone) \"two\" ''one'''], "
                      "prologue: ['printf %s \"$WORDS\" >words']")
    work = workplace(cluster, text, folder="""a 'work' "place" $HOME &""")
    work.call(*work.with_stub("--results", "re'sults $(touch gone) \"\"", "--set",
                              f"slurm.job_name={hostile}"))
    work.results = work.folder / "re'sults $(touch gone) \"\""
    assert work.attempts() == {"only": ["finished"]}
    assert (work.folder / "words").read_text() == "$(touch gone) \"two\" 'one'"
    assert list(work.folder.rglob("gone")) == []


def test_a_run_that_fails_says_which_rank_and_why_and_others_go_on(cluster, workplace):
    work = workplace(cluster, experiment(
        ["{name: bad, strategy: {kind: ddp, ranks: 3}}",
         "{name: good, strategy: {kind: ddp, ranks: 3}, train.seed: 2}"],
        "device: cpu, train.steps: 3",
        "environment: ['STUB_RULES=point=bad,rank=1,fail=the disk is full']"))
    work.call(*work.with_stub(), status=1)
    assert work.attempts() == {"bad": ["failed"], "good": ["finished"]}
    [row] = work.query("select reason, reason_rank from attempts where status = 'failed'")
    assert row == {"reason": "rank 1: the disk is full", "reason_rank": 1}


def test_runs_with_a_result_are_not_submitted_again(cluster, workplace):
    work = workplace(cluster, experiment(["{name: only}"], "device: cpu, train.steps: 2"))
    for _ in range(2):
        work.call(*work.with_stub())
    assert work.attempts() == {"only": ["finished"]}
    work.call(*work.with_stub("--rerun"))
    assert work.attempts() == {"only": ["finished", "finished"]}
    first, second = [record["started_unix_ms"] for record in work.records("launch.json")]
    assert first < second


def test_a_runner_in_a_job_of_the_users_own_works_on_its_node(cluster, workplace):
    work = workplace(cluster, experiment(
        ["{name: DDP, strategy: {kind: ddp, ranks: 2}}"], f"{TINY}, train.steps: 3"))
    output = work.folder / "job.out"
    ended = cluster.call("sbatch", "--wait", "--ntasks=2", "--time=5", f"--chdir={work.folder}",
                         f"--output={output}",
                         f"--wrap=TMPDIR={work.folder} {work.runner} {work.file} --trainer {work.trainer}")
    assert ended.returncode == 0, ended.stderr + output.read_text()
    assert work.losses() == work.local_losses()
    [launched] = work.records("launch.json")
    assert launched["slurm_job"] == "" and launched["host"] == socket.gethostname()
    assert work.query("select * from jobs") == []
