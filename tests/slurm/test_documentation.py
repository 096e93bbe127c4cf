"""Runs the commands in docs/cluster.md, and compares what the page shows of their output."""
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from cluster import Cluster
from conftest import job_ids
from waiting import LIMIT_S

REPOSITORY = Path(__file__).parents[2]
SHORTER = {"train.sequences: 192": "train.sequences: 64",
           "data.sequence_length: 128": "data.sequence_length: 32"}


def commands_of(section):
    page = (REPOSITORY / "docs/cluster.md").read_text()
    return re.search(rf"## {section}\n.*?\n```\n(.*?)```", page, re.DOTALL)[1]


def test_the_lab_on_a_cluster_of_ones_own_gives_five_finished_rows(runner, tmp_path):
    """No resolver knows the nodes' names, and no setting says where ranks meet."""
    text = (REPOSITORY / "experiments/lab.yaml").read_text()
    for long, short in SHORTER.items():
        assert long in text
        text = text.replace(long, short)
    (tmp_path / "experiments").mkdir()
    (tmp_path / "experiments/lab.yaml").write_text(text)
    (tmp_path / "tests").symlink_to(REPOSITORY / "tests")
    (tmp_path / "fsdp-run").symlink_to(runner)
    # The path is short, as in the document, because paths of sockets, with job ids, have at most
    # 107 characters.
    cluster = Path(tempfile.mkdtemp()) / "cluster"
    commands = commands_of("Try it without a cluster")
    # Ranks of all clusters on this host meet at ports that follow from the jobs' ids.
    commands = commands.replace('start /tmp/cluster', f"start {cluster} FirstJobId={next(job_ids)}")
    commands = commands.replace("/tmp/cluster", str(cluster))
    try:
        ended = subprocess.run(["bash", "-e"], input=commands, cwd=tmp_path, text=True,
                               capture_output=True, timeout=LIMIT_S)
    finally:
        Cluster(cluster).stop()
        shutil.rmtree(cluster.parent)
    assert ended.returncode == 0, ended.stderr
    assert re.search("^Why:    4xFSDP against 1 GPU: -", ended.stdout, re.MULTILINE), ended.stdout


def shown_by(command):
    """Returns what the page shows below the line with this command, and a pattern of it: other numbers
    may stand there, `...` stands for anything, and lines may break elsewhere."""
    page = (REPOSITORY / "docs/cluster.md").read_text()
    shown = re.search(rf"\$ ./fsdp-run {command}\n(.*?)```", page, re.DOTALL)[1]
    words = [".*?" if word == "..." else re.sub(r"\d+", r"\\d+", re.escape(word)) for word in shown.split()]
    return shown, re.compile(r"\s*".join(words), re.DOTALL)


def test_submit_status_and_cancel_print_what_the_page_shows(cluster, workplace):
    work = workplace(cluster, (REPOSITORY / "experiments/lab.yaml").read_text())
    (work.folder / "experiments").mkdir()
    shutil.copy(REPOSITORY / "experiments/lab.yaml", work.folder / "experiments")
    submit = "experiments/lab.yaml --launcher slurm --profile cpu --detach"
    told = work.call(*submit.split())
    assert shown_by(submit)[1].match(told.stderr), told.stderr
    shown_heading, _, shown_rows = shown_by("status")[0].split("\n", 2)
    assert re.match(r"5 runs: .*\d+ running", shown_heading)

    def has_the_shown_columns():
        heading, _, rows = work.call("status", COLUMNS="0").stdout.split("\n", 2)  # in full width
        return (re.match(r"5 runs: .*\d+ running", heading)
                and rows.splitlines()[0].split() == shown_rows.splitlines()[0].split())

    cluster.wait_until("runs do steps, and status has the columns of the page", has_the_shown_columns)
    cancelled = work.call("cancel", "lab").stdout.splitlines()
    row = re.sub(r"\\\(.*", r"\(lab/.*, [0-9a-f]{8}\)", shown_by("cancel lab")[1].pattern)
    on_a_busy_host = "the jobs take a while to end; fsdp-run status shows when they have ended"
    rows = [line for line in cancelled if line != on_a_busy_host]
    assert rows and all(re.fullmatch(row, line) for line in rows), (row, cancelled)
