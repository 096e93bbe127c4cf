"""What a job requests from Slurm, its script, its containers, and where its files are."""
import json
import os
import re
import subprocess
from pathlib import Path

from few_games import few_games
from workplace import TINY, experiment

BASE = "device: cpu, train.steps: 2"
ENGINE = Path(__file__).parents[1] / "fakes/container_engine"


def reason_of(work, point):
    [row] = work.query("select reason from runs where point = ? and status = 'failed'", point)
    return row["reason"]


def test_options_that_a_key_sets_are_refused_and_others_reach_the_job(cluster, workplace):
    work = workplace(cluster, experiment(["{name: only}"], BASE))
    ended = work.call(*work.with_stub("--set", "slurm.sbatch_options=[--nodes=2]"), status=2)
    assert "'--nodes=2' is set by slurm.nodes; set that key" in ended.stderr
    assert not work.results.exists()
    work.call(*work.with_stub("--set", "slurm.sbatch_options=[--comment=chargeback 7]"))
    [job] = [row["slurm_job"] for row in work.query("select slurm_job from jobs")]
    assert "Comment=chargeback 7" in cluster.call("scontrol", "show", "job", job).stdout


def test_when_no_job_was_submitted_no_command_follows_one(cluster, workplace):
    work = workplace(cluster, experiment(["{name: only}"], BASE, "partition: nowhere"))
    ended = work.call(*work.with_stub("--detach"), status=1)
    assert "invalid partition" in ended.stderr.lower()
    assert "to follow the jobs" not in ended.stderr


def test_a_job_asks_for_the_nodes_and_keys_that_an_experiment_names(cluster, workplace, gate):
    work = workplace(cluster, experiment(
        ["{name: only}"], BASE,
        "nodelist: n3, wckey: lab, dependency: singleton, cpu_bind: none, gpu_bind: none, "
        f"environment: [SLURM_MPI_TYPE=nowhere, 'STUB_RULES=await={gate}']"))
    follower = work.start(*work.with_stub())
    cluster.wait_until("the rank runs", lambda: work.ranks("only"))
    [job] = [row["slurm_job"] for row in work.query("select slurm_job from jobs")]
    shown = cluster.call("scontrol", "show", "job", job).stdout
    assert "ReqNodeList=n3" in shown
    assert cluster.call("squeue", "--noheader", "--format=%w").stdout.strip() == "lab"
    gate.touch()
    work.end_of(follower)
    assert work.records("launch.json")[0]["node_list"] == "n3"


def test_a_nodelist_that_slurm_refuses_names_its_key(cluster, workplace):
    work = workplace(cluster, experiment(["{name: only}"], BASE, "nodelist: n9"))
    work.call(*work.with_stub(), status=1)
    assert "set slurm.nodelist" in reason_of(work, "only")


def test_a_line_of_the_prologue_that_fails_stops_the_run(cluster, workplace):
    work = workplace(cluster, experiment(
        ["{name: fails, slurm.prologue: ['cd /nowhere', 'echo later >later']}",
         "{name: may fail, slurm.prologue: ['cd /nowhere || true']}"], BASE))
    work.call(*work.with_stub(), status=1)
    assert work.attempts() == {"may fail": ["finished"]}
    assert "a line of slurm.prologue failed: cd /nowhere" in reason_of(work, "fails")
    assert not (work.folder / "later").exists()


def test_a_folder_of_the_output_is_made_and_a_missing_output_is_not_named_as_if_it_were_there(
        cluster, workplace):
    work = workplace(cluster, experiment(
        ["{name: made, slurm.output: logs/all/%x.out}",
         "{name: missing, slurm.output: '%x/out'}",
         "{name: broken, slurm.output: gone/out, slurm.error: logs/%x.err, "
         "slurm.prologue: ['false']}"], BASE))
    work.call(*work.with_stub(), status=1)
    assert work.attempts() == {"made": ["finished"]}
    assert "job " in (work.folder / "logs/all/trial.out").read_text()
    assert f"{work.folder}/trial/out (does not exist)" in reason_of(work, "missing")
    assert f"{work.folder}/logs/trial.err: a line of slurm.prologue" in reason_of(work, "broken")


def test_ranks_in_containers_read_what_links_lead_to(cluster, workplace, tmp_path):
    hub = tmp_path / "hub"
    (hub / "snapshots/c0ffee").mkdir(parents=True)
    (hub / "blobs").mkdir()
    (hub / "blobs/1234").write_text(few_games().read_text())
    (hub / "snapshots/c0ffee/games.csv").symlink_to("../../blobs/1234")
    (tmp_path / "bin").mkdir()
    for engine in ("apptainer", "podman"):
        (tmp_path / "bin" / engine).symlink_to(ENGINE)
    work = workplace(cluster, "")
    found = subprocess.run(["ldd", work.trainer], capture_output=True, text=True).stdout
    torch = Path(re.search("libtorch_cpu.so => (.*) [(]", found)[1]).parent
    build = work.trainer.parent
    work.file.write_text(experiment(
        [f"{{name: outside, slurm.container: {{engine: apptainer, options: [--bind={torch}]}}}}",
         f"{{name: image, slurm.container: {{engine: podman, trainer: {work.trainer}, "
         f"options: ['--volume={torch}:{torch}', '--volume={build}:{build}']}}}}"],
        f"{TINY}, train.steps: 2, slurm.container.image: system").replace(
            str(few_games()), str(hub / "snapshots/c0ffee/games.csv")))
    work.call(*work.with_trainer(), PATH=f"{tmp_path}/bin:{os.environ['PATH']}")
    assert work.attempts() == {"outside": ["finished"], "image": ["finished"]}
    digests = {row["point"]: row["trainer_digest"] for row in work.query(
        "select point, trainer_digest from attempts join runs on run = runs.id")}
    assert len(digests["outside"]) == 32
    assert digests["image"] == ""  # the trainer in the image cannot be read from outside


def test_an_attempt_comes_from_its_node_and_not_from_where_it_was_submitted(cluster, workplace):
    work = workplace(cluster, experiment(
        ["{name: only}"], BASE, "cpus_per_task: 2, environment: [NCCL_DEBUG=WARN]"))
    for words in (["init", "--quiet"], ["add", "."],
                  ["-c", "user.name=n", "-c", "user.email=e", "commit", "--quiet", "-m", "one"]):
        subprocess.run(["git", *words], cwd=work.folder, check=True)
    work.call(*work.with_stub(), OMP_NUM_THREADS="7", NCCL_ALGO="Ring")
    [launched] = work.records("launch.json")
    variables = json.loads(launched["environment"])
    assert variables["OMP_NUM_THREADS"] == "2"
    assert variables["NCCL_DEBUG"] == "WARN"
    assert variables["SLURM_JOB_NODELIST"] == launched["node_list"]
    [row] = work.query("select * from attempts")
    for name in ("environment", "cpu_cores", "trainer_digest", "runner_version", "git_commit",
                 "git_dirty", "git_untracked", "experiment_text_digest"):
        assert row[name] == launched[name], name
    assert len(row["git_commit"]) == 40
    assert row["git_untracked"] == 0
    [text] = work.query("select digest from experiment_texts")
    assert row["experiment_text_digest"] == text["digest"]
