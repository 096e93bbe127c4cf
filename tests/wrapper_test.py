"""./fsdp-run builds the right variant. It runs in a copied folder whose cmake/setup only prints its
arguments."""

import pathlib
import re
import shutil
import subprocess

import pytest

SOURCE = pathlib.Path(__file__).resolve().parent.parent
SETUP = """#!/usr/bin/env bash
mkdir -p "$(dirname "$0")/../build/$1"
printf '#!/usr/bin/env bash\\necho "$@"\\n' > "$(dirname "$0")/../build/$1/fsdp-run"
chmod +x "$(dirname "$0")/../build/$1/fsdp-run"
ln -sfn . "$(dirname "$0")/../build/$1/current"
echo "set-up $1 ($2): ${*:3}"
"""

EXPERIMENT = """experiment: chess
profiles:
  large: {set: {slurm: {nodes: 1, gpus_per_node: 4}}}
"""
FOLLOWED = """experiment: chess
base:
  slurm:
    gpus_per_node: "${strategy.ranks}"
"""
FOR_CPUS = """experiment: chess
base:
  slurm:
    gpus_per_node: 0
    gpu_request: gpus_per_node  # gpus_per_node: 4 where there are some
"""
TO_SLURM = ["chess.yaml", "--launcher", "slurm"]

pytestmark = pytest.mark.skipif(
    pathlib.Path("/proc/driver/nvidia/version").exists() or shutil.which("nvidia-smi") is not None,
    reason="a host with GPUs always builds the CUDA variant",
)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "cmake").mkdir()
    shutil.copy(SOURCE / "fsdp-run", tmp_path)
    (tmp_path / "cmake/setup").write_text(SETUP)
    (tmp_path / "cmake/setup").chmod(0o755)
    (tmp_path / "chess.yaml").write_text(EXPERIMENT)
    return tmp_path


ALL = "fsdp-train fsdp-run-program"
READING = [
    ["report", "lab"],
    ["status"],
    ["doctor"],
    ["logs", "chess", "--follow"],
    ["check", "chess.yaml"],
    ["chess.yaml", "--dry-run", "--set", "device=cuda"],
    ["run", "chess.yaml", "--launcher", "slurm", "--dry-run"],
    ["chess.yaml", "--help"],
    ["-h"],
]


def output(folder, arguments, **environment):
    program = [folder / "fsdp-run", *arguments]
    path = {"PATH": "/usr/bin:/bin", **environment}
    return subprocess.run(
        program, cwd=folder, env=path, check=True, text=True, stdout=subprocess.PIPE
    ).stdout.splitlines()


def preset(folder, arguments, targets=ALL, **environment):
    first, second = output(folder, arguments, **environment)
    assert second == " ".join(arguments)
    assert first.endswith(": " + targets)
    return first.removesuffix(": " + targets)


@pytest.mark.parametrize(
    "arguments",
    [
        TO_SLURM,
        ["run", "chess.yaml", "--launcher=slurm", "--only", "FSDP"],
        [*TO_SLURM, "--profile", "large"],
        ["chess.yaml", "--detach"],
        ["run", "--follow", "chess.yaml"],
        ["chess.yaml", "--set", "device=cuda"],
    ],
)
def test_jobs_that_ask_for_gpus_need_the_cuda_variant(folder, arguments):
    assert preset(folder, arguments) == "set-up cuda (cpu cuda)"


@pytest.mark.parametrize(
    "arguments",
    [
        ["chess.yaml"],
        ["chess.yaml", "--launcher", "local"],
        ["doctor", "--self-test"],
        [*TO_SLURM, "--profile", "cpu"],
        [*TO_SLURM, "--profile=cpu"],
        ["chess.yaml", "--detach", "--profile", "cpu"],
        [*TO_SLURM, "--set", "slurm.gpus_per_node=0"],
    ],
)
def test_all_else_is_done_with_the_cpu_variant(folder, arguments):
    assert preset(folder, arguments) == "set-up release (cpu)"


@pytest.mark.parametrize(
    "text, expected",
    [(FOLLOWED, "cuda (cpu cuda)"), (FOR_CPUS, "release (cpu)"), ("experiment: a\n", "release (cpu)")],
)
def test_the_experiment_says_whether_its_jobs_ask_for_gpus(folder, text, expected):
    (folder / "chess.yaml").write_text(text)
    assert preset(folder, TO_SLURM) == "set-up " + expected
    with_set = [*TO_SLURM, "--set", "slurm.gpus_per_node=2"]
    assert preset(folder, with_set) == "set-up cuda (cpu cuda)"


def test_fsdp_variant_outranks_the_jobs(folder):
    assert preset(folder, TO_SLURM, FSDP_VARIANT="cpu") == "set-up release (cpu)"
    assert preset(folder, ["chess.yaml"], FSDP_VARIANT="cuda") == "set-up cuda (cpu cuda)"


def test_a_login_node_keeps_to_the_variant_that_it_submits_with(folder):
    assert preset(folder, TO_SLURM) == "set-up cuda (cpu cuda)"
    assert preset(folder, ["chess.yaml"]) == "set-up cuda (cpu cuda)"
    assert preset(folder, ["chess.yaml"], FSDP_VARIANT="cpu") == "set-up release (cpu)"
    assert preset(folder, ["chess.yaml"]) == "set-up release (cpu)"


@pytest.mark.parametrize("arguments", READING)
@pytest.mark.parametrize("built", ["chess.yaml", "cuda"])
def test_what_starts_no_run_takes_the_runner_that_is_built(folder, arguments, built):
    output(folder, TO_SLURM if built == "cuda" else [built])
    (folder / "chess.yaml").write_text(EXPERIMENT + "base: {device: cuda}\n")
    assert output(folder, arguments) == [" ".join(arguments)]


@pytest.mark.parametrize("arguments", READING)
def test_what_starts_no_run_needs_the_runner_alone(folder, arguments):
    (folder / "chess.yaml").write_text(EXPERIMENT + "base: {device: cuda}\n")
    assert preset(folder, arguments, "fsdp-run-program") == "set-up release ()"


PARQUET = "set-up release (cpu parquet)"


@pytest.mark.parametrize(
    "arguments",
    [["chess.yaml"], ["check", "chess.yaml"], ["prepare", "chess.yaml"], ["chess.yaml", "--dry-run"]],
)
def test_what_reads_parquet_needs_apache_arrow(folder, arguments):
    (folder / "chess.yaml").write_text(EXPERIMENT + "base: {data.train: a.parquet}\n")
    assert preset(folder, arguments, ALL + " fsdp-parquet") == PARQUET


def test_parquet_may_be_named_by_set(folder):
    arguments = ["chess.yaml", "--set", "data.train=hf://datasets/org/name/a.parquet"]
    assert preset(folder, arguments, ALL + " fsdp-parquet") == PARQUET


def test_a_report_of_runs_that_read_parquet_needs_nothing_more(folder):
    (folder / "chess.yaml").write_text(EXPERIMENT + "base: {data.train: a.parquet}\n")
    assert preset(folder, ["report", "chess.yaml"], "fsdp-run-program") == "set-up release ()"


WRITING = [["report", "lab", "--format", "parquet"], ["report", "--output=a b.parquet"],
           ["export", "--to", "folder", "--format=parquet"]]


@pytest.mark.parametrize("arguments", WRITING)
def test_a_table_as_parquet_needs_apache_arrow_and_no_trainer(folder, arguments):
    assert preset(folder, arguments, "fsdp-run-program fsdp-parquet") == "set-up release (parquet)"


@pytest.mark.parametrize("arguments", WRITING)
@pytest.mark.parametrize("built", ["release", "cuda"])
def test_a_runner_that_is_built_gets_apache_arrow_once(folder, arguments, built):
    output(folder, TO_SLURM if built == "cuda" else ["chess.yaml"])
    assert preset(folder, arguments, "fsdp-run-program fsdp-parquet") == f"set-up {built} (parquet)"
    (folder / f"build/{built}/lib").mkdir()
    (folder / f"build/{built}/lib/libfsdp-parquet.so").touch()
    assert output(folder, arguments) == [" ".join(arguments)]


CHATS = "set-up release (cpu chats)"


@pytest.mark.parametrize("arguments", [["chess.yaml"], ["check", "chess.yaml"], ["prepare", "chess.yaml"]])
def test_chats_without_a_format_need_jinja2(folder, arguments):
    (folder / "chess.yaml").write_text(EXPERIMENT + "base: {data: {kind: messages}}\n")
    assert preset(folder, arguments, ALL) == CHATS
    assert preset(folder, [*arguments, "--set", "data.kind=messages"], ALL) == CHATS


def test_chats_with_a_format_need_nothing_more(folder):
    (folder / "chess.yaml").write_text(EXPERIMENT + "base: {data: {kind: messages, format: llama3}}\n")
    assert preset(folder, ["chess.yaml"], ALL) == "set-up release (cpu)"


PROFILES = """experiment: methods
profiles:
  # device: cuda for all
  "80 gb":
    requires: {gpus: 1, gpu_memory_gib: 79}  # kind: messages
    set:
      device: cuda
      data.train: a.parquet
  24gb: {requires: {gpus: 2}, set: {device: cuda}}

  cpu:
    set: {data: {kind: messages}}
  llama:
    set: {data: {kind: messages, format: llama3}}
base: {train.seed: 1}
"""


@pytest.mark.parametrize(
    "arguments, lists, targets",
    [
        ([], "release (cpu chats)", ALL),  # the first that requires no GPU
        (["--profile", "cpu"], "release (cpu chats)", ALL),
        (["--profile=llama"], "release (cpu)", ALL),
        (["--profile", "24gb"], "cuda (cpu cuda)", ALL),
        (["--profile", "24gb", "--set", "data.train=b.parquet"], "cuda (cpu cuda parquet)", ALL + " fsdp-parquet"),
    ],
)
def test_a_profile_that_is_not_used_needs_nothing(folder, arguments, lists, targets):
    (folder / "chess.yaml").write_text(PROFILES)
    assert preset(folder, ["chess.yaml", *arguments], targets) == "set-up " + lists


@pytest.mark.parametrize(
    "memory_mib, lists, targets",
    [
        ([81559], "cuda (cpu cuda parquet)", ALL + " fsdp-parquet"),
        ([24564, 24564], "cuda (cpu cuda)", ALL),
        ([24564], "cuda (cpu cuda chats)", ALL),
        ([], "cuda (cpu cuda parquet)", ALL + " fsdp-parquet"),  # not known: all profiles count
    ],
)
def test_on_a_host_with_gpus_the_profile_that_they_meet_counts(folder, memory_mib, lists, targets):
    (folder / "chess.yaml").write_text(PROFILES)
    (folder / "nvidia-smi").write_text("#!/bin/sh\n" + "".join(f"echo {memory}\n" for memory in memory_mib))
    (folder / "nvidia-smi").chmod(0o755)
    assert preset(folder, ["chess.yaml"], targets, PATH=f"{folder}:/usr/bin:/bin") == "set-up " + lists


@pytest.mark.parametrize("driver", [False, True])
@pytest.mark.parametrize(
    "arguments",
    [[], ["--gpu", "rtx4090", "--set", "device=cuda"], ["--profile", "24gb"], ["--set", "data.train=a.parquet"],
     ["--launcher", "slurm", "--set", "slurm.gpus_per_node=4"]],
)
def test_a_plan_needs_the_cpu_variant_alone(folder, arguments, driver):
    (folder / "chess.yaml").write_text(PROFILES)
    (folder / "nvidia-smi").write_text("#!/bin/sh\n")
    (folder / "nvidia-smi").chmod(0o755)
    path = f"{folder}:/usr/bin:/bin" if driver else "/usr/bin:/bin"
    assert preset(folder, ["plan", "chess.yaml", *arguments], PATH=path) == "set-up release (cpu)"


def test_every_command_is_known_to_start_runs_or_not():
    listed = subprocess.run(
        [SOURCE / "build/release/fsdp-run", "--help"], check=True, text=True, stdout=subprocess.PIPE
    ).stdout
    commands = re.findall(r"^  ([a-z]+) +\S", listed.split("Subcommands:")[1], re.MULTILINE)
    assert "report" in commands
    [known] = re.findall(r"starts_no_run\(\) {.*?\n}", (SOURCE / "fsdp-run").read_text(), re.DOTALL)
    assert [name for name in commands if not re.search(rf"\b{name}\b", known.split("case")[1])] == ["run", "plan", "calibrate", "diverge", "sample"]
