"""`fsdp-run plan` on a host without GPUs."""

import json
from pathlib import Path

import fork_server
import pytest
import yaml
from planning import plans, request_of

pytestmark = pytest.mark.quick

ROOT = Path(__file__).resolve().parents[2]
LAB = ROOT / "experiments/lab.yaml"
CHESS = ROOT / "experiments/chess.yaml"
A100X4 = ("--profile", "a100x4")
OFFLOAD = (*A100X4, "--gpu", "a100-80", "--only", "offload")
TINY = """experiment: lab
base:
  device: cpu
  memory_limit_gib: 8
  model.config: {num_hidden_layers: 1, hidden_size: 8, intermediate_size: 8, num_attention_heads: 2,
                 num_key_value_heads: 2, vocab_size: 1024}
  data: {kind: chess, sequence_length: 4}
  batch: {size_per_rank: 1}
  train: {steps: 1, warmup_steps_excluded: 0}
points: [{name: one, strategy: {kind: ddp, ranks: 1}}]
"""


def flat(text: str) -> str:
    return " ".join(text.split())


@pytest.fixture
def plan(call, trainer):
    """Returns what is printed, with single spaces."""
    return lambda *words, file=LAB: flat(call("plan", file, "--trainer", trainer, *words).stdout)


@pytest.fixture
def rows(call, trainer):
    def read(*words: str, file: Path = LAB) -> list[dict]:
        return json.loads(call("plan", file, "--trainer", trainer, *words, "--format", "json").stdout)

    return read


@pytest.fixture
def check(call, trainer):
    return lambda *words: flat(call("check", LAB, "--trainer", trainer, *words).stdout)


@pytest.fixture
def experiment(tmp_path):
    def write(text: str) -> Path:
        (tmp_path / "own.yaml").write_text(text)
        return tmp_path / "own.yaml"

    return write


def test_every_point_of_a_profile_is_planned_for_its_gpus(rows):
    planned = {row["point"]: row for row in rows(*A100X4)}
    assert set(planned) >= {"1 GPU", "4xDDP", "4xFSDP"}
    for row in planned.values():
        assert row["problem"] == ""
        figures = [row[f"memory_{name}_bytes_max"] for name in ("requested", "allocated", "reserved", "device")]
        assert figures == sorted(figures)
        assert figures[0] == max(phase["memory_requested_bytes_max"] for phase in row["phases"])
        totals = [sum(value for name, value in moment.items() if name.endswith("_bytes")) for moment in row["timeline"]]
        phases = [moment["phase"] for moment in row["timeline"]]
        assert max(totals) == figures[0] and phases[0] == "start" and {"forward", "backward"} <= set(phases)
    # 7 billion parameters in bfloat16, with gradients and AdamW's two states.
    assert planned["1 GPU"]["memory_requested_bytes_max"] > 4 * 2 * planned["1 GPU"]["parameter_count"]
    assert planned["4xFSDP"]["memory_requested_bytes_max"] < planned["4xDDP"]["memory_requested_bytes_max"] / 2


def profiles() -> list[tuple[str, str]]:
    """Returns (file, profile) of every shipped experiment, without those that read a model from a
    hub or from a folder that a script makes."""
    found = []
    for file in sorted((ROOT / "experiments").glob("*.yaml")):
        content = yaml.safe_load(file.read_text())
        for name, profile in content["profiles"].items():
            values = content["base"] | profile["set"]
            if "model.source" not in values and "source" not in values.get("model", {}):
                found.append((file.name, name))
    return found


@pytest.mark.parametrize("file, profile", profiles())
def test_every_shipped_profile_is_planned(rows, file, profile):
    """The heads of open_llama_3b have a width for which libtorch has no attention on a GPU."""
    gpu = () if profile == "cpu" else ("--gpu", "b200")
    planned = rows("--profile", profile, *gpu, file=ROOT / "experiments" / file)
    assert planned and [row["problem"] for row in planned] == [""] * len(planned)


@pytest.mark.parametrize("key", ["batch.size_per_rank", "data.sequence_length"])
def test_the_largest_value_fits_and_the_next_does_not(rows, key):
    words = [*A100X4, "--only", "4xFSDP", "--set", "train.steps=3", "--set",
             "model.config.max_position_embeddings=100000"]
    [largest] = rows(*words, "--max", key)
    assert largest["fits"]
    value = int(largest["point"].split("=")[-1])
    [same] = rows(*words, "--set", f"{key}={value}")
    assert same["fits"] and same["memory_device_bytes_max"] == largest["memory_device_bytes_max"]
    [next_one] = rows(*words, "--set", f"{key}={value + 1}")
    assert not next_one["fits"]


def test_a_tight_largest_value_stands_beside_the_largest_that_is_not(rows):
    words = ["--gpu", "a100-80", "--only", "4xFSDP"]
    [largest] = rows(*words, "--max", "batch.size_per_rank")
    [note] = largest["notes"]
    value = int(note.split("The largest that is not tight: ")[1].removesuffix("."))
    assert value < int(largest["point"].split("=")[-1])
    fits = [rows(*words, "--set", f"batch.size_per_rank={size}")[0]["fit"] for size in (value, value + 1)]
    assert fits == ["fits", "tight"]


def test_the_largest_value_is_found_however_far_apart_values_are(rows, experiment):
    """Only 1 and 10007 divide the total batch."""
    row, = rows("--max", "batch.size_per_rank", "--set", "batch.total=10007", file=experiment(TINY))
    assert row["fits"] and row["point"].rsplit("=")[-1] == "10007", row


def test_more_ranks_take_less_of_each(rows):
    by_ranks = [row for row in rows(*A100X4, "--ranks", "1..256") if row["point"].startswith("4xFSDP")]
    assert [row["ranks"] for row in by_ranks] == [2**power for power in range(9)]
    bytes_max = [row["memory_requested_bytes_max"] for row in by_ranks]
    assert bytes_max == sorted(bytes_max, reverse=True) and bytes_max[0] > 3 * bytes_max[-1]


def test_changes_that_save_memory_are_shown_with_what_they_cost(plan, rows):
    words = [*A100X4, "--only", "4xDDP", "--set", "batch.size_per_rank=36", "--suggest"]
    text = plan(*words)
    given, *suggested = rows(*words)
    assert not given["fits"] and len(suggested) > 5
    least = next(row for row in suggested if row["fits"])
    assert least["point"] == "4xDDP + recompute MLPs"
    assert "4xDDP: does not fit; the least change that makes it fit: recompute MLPs, " in text
    less = (given["memory_device_bytes_max"] - least["memory_device_bytes_max"]) / 2**30
    assert f"{less:.1f} GiB less." in text
    assert "offload optimizer: strategy.offload=optimizer; the CPU steps" in text
    assert text.count("4xDDP: optimizer state") == 1  # what fills the original run


def test_several_changes_are_suggested_where_none_is_enough(plan, rows):
    words = ["--only", "1 GPU", "--suggest", "--set"]
    points = {row["point"]: row["fits"] for row in rows(*words, "memory_limit_gib=0.046")}
    [combined] = [point for point in points if point.count(" + ") == 2]
    assert [point for point, fits in points.items() if fits] == [combined]
    changes = combined.removeprefix("1 GPU + ")
    assert f"the least change that makes it fit: {changes}, " in plan(*words, "memory_limit_gib=0.046")
    assert "1 GPU: does not fit with any of these changes; " in plan(*words, "memory_limit_gib=0.001")


def test_other_methods_are_suggested_apart(call, trainer, rows):
    needs_lora = ["--only", "1 GPU", "--set", "memory_limit_gib=0.08"]
    given, *suggested = rows(*needs_lora, "--suggest")
    [lora] = [row for row in suggested if row["point"] == "1 GPU + lora"]
    assert not given["fits"] and lora["fits"]
    assert lora["memory_device_bytes_max"] < given["memory_device_bytes_max"]
    assert given["trained_parameter_count"] == given["parameter_count"] == lora["parameter_count"]
    assert lora["trained_parameter_count"] < lora["parameter_count"] / 10
    text = call("plan", LAB, "--trainer", trainer, *needs_lora, "--suggest").stdout
    above, below = text.split("\nOther methods: they change what is trained, not only how\n")
    assert "1 GPU + lora" not in above and below.startswith("1 GPU + lora ")
    assert "lora: method=lora; adapters are trained in place of the model's parameters." in flat(below)
    assert rows(*needs_lora, "--set", "method=lora")[0]["memory_device_bytes_max"] == lora["memory_device_bytes_max"]


def test_max_finds_the_largest_rank_of_adapters(rows):
    words = ["--only", "1 GPU", "--set", "method=lora", "--max", "lora.rank"]
    [widest] = rows(*words)
    assert widest["fits"]
    assert "lora.rank that fits: 288. The run allows no larger value, although memory may: " in " ".join(widest["notes"])
    [least] = rows(*words[:4], "--set", "lora.rank=1")
    limit_bytes = (widest["memory_device_bytes_max"] + least["memory_device_bytes_max"]) // 2
    limit = ["--set", f"memory_limit_gib={limit_bytes / 2**30}"]
    [limited] = rows(*words, *limit)
    [note] = limited["notes"]
    rank = int(note.split("that fits: ")[1].split()[0])
    assert 1 < rank < 288 and f"({rank + 1} does not)" in note and limited["point"] == f"1 GPU lora.rank={rank}"
    [above] = rows(*words[:4], "--set", f"lora.rank={rank + 1}", *limit)
    assert limited["fits"] and not above["fits"]


@pytest.mark.parametrize("key, value", [("batch.gradient_accumulation_steps", 4096), ("batch.total", 4096 * 3)])
def test_max_planned_for_minutes_what_takes_no_memory(rows, experiment, key, value):
    [row] = rows("--max", key, "--set", "batch.size_per_rank=3", file=experiment(TINY))
    assert row["point"] == f"one {key}={value}"
    assert f"one: {key} {value} fits. Larger values are not planned" in row["notes"][-1]


def test_max_says_of_a_full_training_that_it_has_no_adapters(rows):
    [row] = rows("--only", "1 GPU", "--max", "lora.rank")
    assert row["point"] == "1 GPU" and row["notes"] == ["1 GPU: method: full has no lora.rank."]


def test_of_a_doubled_key_the_largest_value_is_planned(rows):
    [doubled] = rows("--only", "FSDP, doubled", file=CHESS)
    assert doubled["fits"]
    value = int(doubled["point"].removeprefix("FSDP, doubled size_per_rank="))
    assert value > 1
    [next_one] = rows("--only", "FSDP", "--set", f"batch.size_per_rank={2 * value}", file=CHESS)
    assert not next_one["fits"]


def test_of_a_doubled_key_no_value_is_planned_that_the_sweep_does_not_try(rows, experiment):
    file = experiment("""experiment: doubled
base: {data.kind: chess, device: cpu, memory_limit_gib: 8, train.steps: 2}
points: [{name: a}]
sweep: {double: {batch.size_per_rank: {from: 2, to: 8}}}
""")
    [row] = rows(file=file)
    assert row["point"] == "a size_per_rank=8" and row["fits"]


def test_what_the_sweep_doubles_is_not_set_besides(call, trainer, rows, experiment):
    """Otherwise every run would have the set value, and the name of another value."""
    text = """experiment: doubled
base: {device: cpu, memory_limit_gib: 0.1, data: {kind: chess, sequence_length: 16}, train.steps: 2}
points: [{name: a, strategy: {kind: fsdp}}]
sweep: {double: {KEY: {from: 1, to: 8}}}
"""
    file = experiment(text.replace("KEY", "batch.size_per_rank"))
    for words in (["--set", "batch.size_per_rank=1"], ["--set", "batch={size_per_rank: 1}"],
                  ["--set", "batch.size_per_rank=1", "--max", "batch.size_per_rank"]):
        done = call("plan", file, "--trainer", trainer, *words, fails_with=2)
        assert "overrides what the sweep doubles" in done.stderr, done.stdout
    for row in rows("--ranks", "1..4", file=experiment(text.replace("KEY", "strategy.ranks"))):
        assert row["point"] == f"a ranks={row['ranks']}"


LIMIT = ("--set", "memory_limit_gib=0.1")


@pytest.mark.parametrize("words, said, not_said", [
    (["--set", "memory_limit_gib=1"], ["Memory"], ["predicted not to fit", "not known", "Checkpoints"]),
    (LIMIT, ["warning: 1 GPU is predicted not to fit: ", " of 0.100 GiB"], ["4xFSDP is predicted"]),
    (["--set", "checkpoint.every_steps=1", "--set", "train.steps=1000000", "--only", "1 GPU"],
     ["warning: checkpoints will take", "see checkpoint.keep"], []),
])
def test_check_says_what_a_plan_says(check, words, said, not_said):
    text = check(*words)
    assert all(part in text for part in said) and not any(part in text for part in not_said), text


@pytest.mark.parametrize("words, said, not_said", [
    (["--suggest", "--set", "device=cuda", "--only", "1 GPU"],
     "1 GPU: the memory is not known; name the GPU with --gpu.", "fits as it is"),
    # A run that fits, and adapters that do not.
    (["--only", "1 GPU", "--set", "memory_limit_gib=1", "--suggest"], "1 GPU", "Other methods"),
    (["--only", "1 GPU", "--set", "memory_limit_gib=0.0001", "--set", "method=lora", "--suggest"], "1 GPU", "+ lora"),
    # The host stands in a table only if it matters.
    ([*A100X4, "--gpu", "a100-80", "--only", "4xDDP"], "4xDDP", "Host"),
    (OFFLOAD, "Host", "does not fit"),
    # Nothing says how much memory the host has.
    (OFFLOAD, "GiB of a node, not compared with what a node has; --host-memory-gib N compares it.", "does not fit"),
    ([*OFFLOAD, "--host-memory-gib", "9999"], "Host", "not compared"),
    ([*A100X4, "--gpu", "a100-80", "--only", "4xDDP"], "fits", "not compared"),
    ([*A100X4, "--gpu", "a100-80", "--only", "4xDDP", "--host-memory-gib", "1"], "Host", "fits as it is"),
    # What bounds the largest value.
    (["--gpu", "a100-80", "--only", "4xFSDP", "--max", "data.sequence_length"],
     "The run allows no larger value, although memory may: ", "does not fit."),
    (["--gpu", "a100-80", "--only", "4xFSDP", "--max", "batch.size_per_rank"],
     "4xFSDP: largest batch.size_per_rank that fits: ", "although memory may"),
    (["--gpu", "a100-80", "--only", "4xFSDP", "--max", "data.sequence_length", *LIMIT],
     "data.sequence_length 1 does not fit.", "although memory may"),
])
def test_what_is_said(plan, words, said, not_said):
    text = plan(*words)
    assert said in text and not_said not in text, text


def test_host_memory_that_is_not_compared_is_said_once_with_the_most_that_is_needed(plan, rows):
    words = [*OFFLOAD, "--ranks", "1,2,4"]
    most_gib = max(row["memory_node_bytes_max"] for row in rows(*words)) / 2**30
    text = plan(*words)
    assert text.count("not compared with what a node has") == 1, text
    assert f"Host memory: up to {most_gib:.3g} GiB of a node, not compared" in text, text


def test_a_run_fits_if_the_ranks_of_a_node_fit_into_its_memory(call, trainer, tmp_path):
    text = call(LAB, "--only", "offload", "--dry-run").stdout

    def planned(memory_bytes: int) -> dict:
        request = request_of({"strategy": {"ranks": 3}}, tmp_path)
        request |= {"specification": text, "host": {"memory_bytes": memory_bytes, "ranks": 3}}
        return plans(trainer, [request])[0]

    plan = planned(2**40)
    node = plan["memory_node_bytes_max"]
    assert plan["fit"] == "fits" and plan["memory_node_limit_bytes"] == 2**40
    assert node == 3 * plan["memory_host_bytes_max"] > 3 * plan["memory_requested_bytes_max"]
    fits = {memory_bytes: planned(memory_bytes)["fit"] for memory_bytes in (node - 1, node, 0)}
    assert fits == {node - 1: "does_not_fit", node: "tight", 0: "unknown"}


def test_a_gpu_run_is_judged_by_the_memory_of_its_host(rows, plan):
    """A run once offloaded 744 GB on a host with less memory, and was killed."""
    [row] = rows(*OFFLOAD)
    assert row["fits"] and row["memory_node_limit_bytes"] is None
    # The optimizer's two states and the parameters of 13 billion, on one host.
    node_gib = row["memory_node_bytes_max"] / 2**30
    assert row["memory_node_bytes_max"] > 3 * 2 * row["parameter_count"]
    for factor in 2, 0.5:
        [given] = rows(*OFFLOAD, "--host-memory-gib", str(factor * node_gib))
        assert given["fits"] == (factor > 1)
    text = plan(*OFFLOAD, "--host-memory-gib", str(node_gib / 2))
    assert "GiB of a node's memory; offload less (strategy.offload)" in text and "does not fit" in text


def test_a_job_is_judged_by_the_memory_that_it_asks_for(rows):
    """The requested memory is that of each node. The node's ranks share it."""
    words = ["--launcher", "slurm", *OFFLOAD, "--set", "slurm.gpus_per_node=2", "--set", "slurm.nodes=2"]
    [row] = rows(*words, "--set", "slurm.mem=500G")
    assert row["fits"] and row["memory_node_bytes_max"] == 2 * row["memory_host_bytes_max"]
    assert row["memory_node_limit_bytes"] == 500 << 30
    [row] = rows(*words, "--set", "slurm.mem=5G")
    assert not row["fits"]
    on_cpus = ["--launcher", "slurm", "--profile", "cpu"]
    for row in rows(*on_cpus):
        assert row["device"] == "CPUs of the cluster" and row["memory_limit_bytes"] is None
    for row in rows(*on_cpus, "--set", "slurm.mem=3G"):
        assert row["memory_limit_bytes"] == (3 << 30) // row["ranks"]
    for row in rows(*on_cpus, "--set", "slurm.mem=3G", "--set", "slurm.nodes=2", "--only", "4xDDP"):
        assert row["memory_limit_bytes"] == (3 << 30) // (row["ranks"] // 2)


def test_on_the_cpu_the_memory_of_this_host_is_the_limit(rows):
    for row in rows():
        assert row["device"].startswith("the CPU")
        assert row["memory_limit_bytes"] > row["memory_device_bytes_max"]


RANGE = "is not a list of numbers from 1 to 100000; allowed: a number, a list (1,2,8) or a range (1..1024)"


@pytest.mark.parametrize("words, problem", [
    (["--max", "batch.size"], "'batch.size': is not a key that holds an integer"),
    (["--max", "strategy.kind"], "'strategy.kind': is not a key that holds an integer"),
    (["--max", "strategy.ranks"], "'strategy.ranks': has no largest value"),
    (["--ranks", "0"], f"'0': {RANGE}"),
    (["--ranks", "8..4"], f"'8..4': {RANGE}"),
    (["--ranks", "9999999999999999999"], RANGE),
    (["--ranks", "1..9223372036854775807"], RANGE),
    (["--profile", "none"], "no such profile"),
    (["--set", "device=cpu", "--launcher", "slurm", "--max", "data.sequence_length"],
     "; give --host-memory-gib, or set slurm.mem, or set memory_limit_gib"),
    (["--price", "nan"], "--price: nan is not a number from 0 to 1000000000"),
    (["--price", "1e308"], "--price: 1e308 is not a number"),
    (["--host-memory-gib", "nan"], "--host-memory-gib: nan is not a number from 0.001 to 1000000"),
    (["--host-memory-gib", "1e308"], "--host-memory-gib: 1e308 is not a number"),
])
def test_mistakes_are_said(call, trainer, words, problem):
    done = call("plan", LAB, "--trainer", trainer, *words, fails_with=2)
    assert problem in done.stderr and done.stdout == ""


def test_a_trainer_that_does_not_answer_is_named(call):
    assert "/bin/true ended without an answer" in call("plan", LAB, "--trainer", "/bin/true", fails_with=1).stderr


def test_a_run_that_cannot_be_planned_is_a_row(plan, experiment):
    text = plan(file=experiment("experiment: one\npoints:\n  - name: a\n    model.source: nowhere\n  - name: b\n"))
    assert "No plan for a" in text and "nowhere" in text


@pytest.mark.parametrize("gpu", ["v100-16", "rtx4090", "a100-80"])
def test_a_plan_for_any_gpu_is_of_the_same_model(plan, rows, gpu):
    """Plans once took another profile for each GPU, and the CPU's profile for a V100."""
    planned = rows("--gpu", gpu)
    for row in planned:
        assert row["profile"] == "a100x4" and row["parameter_count"] == 6_738_415_616
        assert row["ranks"] == (1 if row["point"] == "1 GPU" else 4)
    text = plan("--gpu", gpu)
    assert text.startswith(f"Profile a100x4: Llama 6.74B on 1 and 4 ranks, planned for {gpu}, "), text
    assert ("has no hardware for bf16" in text) == (gpu == "v100-16")
    assert len(rows("--gpu", gpu, "--set", "device=cuda")) == len(planned) == 5


def test_step_times_of_a_gpu_that_is_not_there_are_marked(call, trainer, rows):
    words = (*A100X4, "--gpu", "a100-80")
    planned = {row["point"]: row for row in rows(*words)}
    single, offload = planned["1 GPU"], planned["offload"]
    assert single["step_time_ms"] > 0 and single["communication_exposed_ms"] is None
    assert single["mfu_percent"] == single["hfu_percent"] > 0
    assert any("uncalibrated" in line for line in single["assumptions"])
    assert offload["step_time_ms"] is None and offload["mfu_percent"] is None
    text = call("plan", LAB, "--trainer", trainer, *words, "--only", "1 GPU").stdout
    assert f"about {single['step_time_ms']:.0f} ms, whatever the strategy" in flat(text)
    assert "[ms]" not in text and "uncalibrated" in text


def test_units_that_are_kept_for_a_slow_gpu_are_said_not_to_be_counted(rows):
    [sharded] = rows("--gpu", "a100-80", "--only", "4xFSDP", "--set", "strategy.limit_all_gathers=false")
    assert any("limit_all_gathers" in line for line in sharded["assumptions"])


def test_a_page_is_written_where_it_is_asked_for(call, trainer, tmp_path):
    done = call("plan", LAB, "--trainer", trainer, "--format", "html", "--output", "page.html")
    assert (done.stdout, done.stderr) == ("", "")
    assert "<h1>Plan of lab</h1>" in (tmp_path / "page.html").read_text()


def test_equal_runs_are_planned_once(call, trainer, experiment, tmp_path):
    asking = tmp_path / "trainer"
    asking.write_text(f'#!/bin/sh\n[ "$1" = --plan ] || exec {trainer} "$@"\ntee requests | {trainer} "$@"\n')
    asking.chmod(0o755)
    points = "".join(f"  - {{name: p{number}, batch.size_per_rank: {number // 3 + 1}}}\n" for number in range(6))
    file = experiment(f"experiment: equal\npoints:\n{points}")
    done = call("plan", file, "--format", "markdown", "--trainer", asking)
    assert done.stdout.count("\n| p") == 6, done.stdout
    assert len((tmp_path / "requests").read_text().splitlines()) == 2


@pytest.mark.parametrize("command", ["check", "plan"])
def test_a_small_stack_suffices(call, trainer, command):
    small = ("bash", "-c", 'ulimit -s 128 && exec "$@"', "bash")
    done = call(command, LAB, "--trainer", trainer, prefix=small, fails_with=None)
    assert done.returncode >= 0 and "no answer" not in done.stderr
    assert "4xFSDP" in done.stdout, done.stderr


def test_requests_that_are_none_are_answered(trainer):
    answers = fork_server.run([trainer, "--plan"], "{}\nno\n[]\n" + "{" * 1000 + "\n").splitlines()
    assert len(answers) == 4
    assert all(answer["plan"] is None and answer["error"] for answer in map(json.loads, answers))


def test_a_driver_that_does_not_serve_the_trainer_is_named(call, trainer, fake_nvml, tmp_path, monkeypatch):
    program = tmp_path / "trainer"
    build = {"torch_version": "2.11.0", "cuda_version": "13.0", "nccl_version": "", "architectures": "sm_80"}
    program.write_text(f"#!/bin/sh\n[ $1 = --version ] && echo '{json.dumps(build)}' && exit\nexec {trainer} \"$@\"\n")
    program.chmod(0o755)
    for name, value in {"LD_LIBRARY_PATH": fake_nvml.parent, "FAKE_NVML_GPUS": "80", "FAKE_NVML_CUDA": "12040"}.items():
        monkeypatch.setenv(name, str(value))
    words = ("plan", LAB, "--trainer", program, "--profile", "80gb", "--set", "device=cuda")
    reason = "This host's GPUs cannot be used: the NVIDIA driver"
    assert reason in flat(call(*words).stdout)
    assert reason not in flat(call(*words, "--gpu", "t4").stdout)
    monkeypatch.setenv("FAKE_NVML_CUDA", "13000")
    assert reason not in flat(call(*words).stdout)


LAB_THAT_FITS, LAB_TOO_LARGE = ("--gpu", "a100-80"), ("--gpu", "rtx4090")


@pytest.mark.parametrize("words, code, said", [
    (LAB_THAT_FITS, 0, ""),
    (LAB_TOO_LARGE, 1, "does not fit: 1 GPU, 4xDDP, FSDP batch 8"),
    ((*LAB_TOO_LARGE, "--only", "4xFSDP"), 0, ""),
    ((*LAB_TOO_LARGE, "--only", "4xFSDP", "--ranks", "2,4"), 1, "does not fit: 4xFSDP ranks=2"),
    ((*LAB_THAT_FITS, "--set", "train.steps=none"), 2, "train.steps"),
])
def test_require_fit_tells_by_its_status(call, trainer, words, code, said):
    done = call("plan", LAB, "--trainer", trainer, *words, "--require-fit", "--format", "json", fails_with=code)
    assert said in done.stderr
    if code != 2:
        assert len(json.loads(done.stdout)) >= 1


def test_a_run_without_a_plan_is_not_known_to_fit(call, trainer, experiment):
    file = experiment("experiment: away\nbase: {model.source: who/absent}\n")
    done = call("plan", file, "--trainer", trainer, "--gpu", "t4", "--require-fit", fails_with=3)
    assert done.stderr == "not known whether it fits: away\n"


def test_suggested_rows_do_not_count(call, trainer):
    call("plan", LAB, "--trainer", trainer, *A100X4, "--gpu", "a100-80", "--suggest", "--require-fit")


@pytest.mark.parametrize("limit, code", [(8, 0), (0.0002, 1)])
def test_check_requires_that_runs_fit(call, trainer, experiment, limit, code):
    file = experiment(TINY.replace("memory_limit_gib: 8", f"memory_limit_gib: {limit}"))
    call("check", file, "--trainer", trainer, "--require-fit", fails_with=code)


def test_check_without_plans_knows_no_fit(call, trainer_that_cannot_plan, experiment):
    call("check", experiment(TINY), "--trainer", trainer_that_cannot_plan, "--require-fit", fails_with=3)


def test_the_experiment_may_come_from_stdin(call, trainer):
    words = ("--trainer", trainer, *OFFLOAD)
    from_file = call("plan", LAB, *words).stdout
    assert call("plan", "-", *words, prefix=("sh", "-c", f'"$@" < {LAB}', "sh")).stdout == from_file
