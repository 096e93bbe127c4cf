"""`fsdp-run plan` on a host without GPUs."""

import json
import subprocess
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
LAB = ROOT / "experiments/lab.yaml"
CHESS = ROOT / "experiments/chess.yaml"


@pytest.fixture
def plan(request, trainer, tmp_path):
    runner = request.config.getoption("--runner").resolve()

    def run(*words: str, file: Path = LAB) -> subprocess.CompletedProcess:
        return subprocess.run([runner, "plan", file, "--trainer", trainer, *words], cwd=tmp_path,
                              capture_output=True, text=True)

    return run


@pytest.fixture
def rows(plan):
    def read(*words: str, file: Path = LAB) -> list[dict]:
        done = plan(*words, "--format", "json", file=file)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return read


@pytest.mark.parametrize("command", ["check", "plan"])
def test_a_small_stack_suffices(request, trainer, tmp_path, command):
    runner = request.config.getoption("--runner").resolve()
    limit = "ulimit -s 128 && exec \"$@\""
    done = subprocess.run(["bash", "-c", limit, "bash", runner, command, LAB, "--trainer", trainer],
                          cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode >= 0 and "no answer" not in done.stderr
    assert "4xFSDP" in done.stdout, done.stderr


def test_every_point_of_a_profile_is_planned_for_its_gpus(rows):
    planned = {row["point"]: row for row in rows("--profile", "a100x4")}
    assert set(planned) >= {"1 GPU", "4xDDP", "4xFSDP"}
    for row in planned.values():
        assert row["problem"] == ""
        assert row["memory_requested_bytes_max"] <= row["memory_allocated_bytes_max"]
        assert row["memory_allocated_bytes_max"] <= row["memory_reserved_bytes_max"]
        assert row["memory_reserved_bytes_max"] <= row["memory_device_bytes_max"]
        assert row["memory_requested_bytes_max"] == max(
            phase["memory_requested_bytes_max"] for phase in row["phases"])
    # 7 billion parameters in bfloat16, with gradients and AdamW's two states.
    assert planned["1 GPU"]["memory_requested_bytes_max"] > 4 * 2 * planned["1 GPU"]["parameter_count"]
    assert planned["4xFSDP"]["memory_requested_bytes_max"] < planned["4xDDP"]["memory_requested_bytes_max"] / 2


def profiles_of_gpus() -> list[tuple[str, str]]:
    """Returns (file, profile) of every shipped experiment, without those that read a model from a hub."""
    found = []
    for file in sorted((ROOT / "experiments").glob("*.yaml")):
        content = yaml.safe_load(file.read_text())
        for name, profile in content["profiles"].items():
            values = content["base"] | profile["set"]
            reads_hub = "model.source" in values or "source" in values.get("model", {})
            if values.get("device") != "cpu" and not reads_hub:
                found.append((file.name, name))
    return found


@pytest.mark.parametrize("file, profile", profiles_of_gpus())
def test_every_shipped_profile_of_gpus_is_planned(rows, file, profile):
    """The heads of open_llama_3b have a width for which libtorch has no attention on a GPU."""
    planned = rows("--profile", profile, "--gpu", "b200", file=ROOT / "experiments" / file)
    assert planned and [row["problem"] for row in planned] == [""] * len(planned)


@pytest.mark.parametrize("key", ["batch.size_per_rank", "data.sequence_length"])
def test_the_largest_value_fits_and_the_next_does_not(rows, key):
    words = ["--profile", "a100x4", "--only", "4xFSDP", "--set", "train.steps=3", "--set",
             "model.config.max_position_embeddings=100000"]
    [largest] = rows(*words, "--max", key)
    assert largest["fits"]
    value = int(largest["point"].split("=")[-1])
    [same] = rows(*words, "--set", f"{key}={value}")
    assert same["fits"] and same["memory_device_bytes_max"] == largest["memory_device_bytes_max"]
    [next_one] = rows(*words, "--set", f"{key}={value + 1}")
    assert not next_one["fits"]


@pytest.mark.parametrize("words, value", [(["--max", "batch.total", "--set", "strategy.ranks=5000",
                                            "--host-memory-gib", "1000000"], 20000),
                                          (["--max", "batch.size_per_rank", "--set", "batch.total=10007"], 10007)])
def test_the_largest_value_is_found_however_far_apart_values_are(rows, tmp_path, words, value):
    (tmp_path / "lab.yaml").write_text(f"""experiment: lab
base:
  device: cpu
  memory_limit_gib: 8
  model.config: {{num_hidden_layers: 1, hidden_size: 8, intermediate_size: 8, num_attention_heads: 2,
                 num_key_value_heads: 2, vocab_size: 1024}}
  data: {{kind: chess, sequence_length: 4}}
  batch: {{size_per_rank: 1}}
  train: {{steps: 1, warmup_steps_excluded: 0}}
points: [{{name: one, strategy: {{kind: ddp, ranks: 1}}}}]
""")
    row, = rows(*words, file=tmp_path / "lab.yaml")
    assert row["fits"] and int(row["point"].rsplit("=")[-1]) >= value, row


def test_more_ranks_take_less_of_each(rows):
    words = ["--profile", "a100x4", "--ranks", "1..256"]
    by_ranks = [row for row in rows(*words) if row["point"].startswith("4xFSDP")]
    assert [row["ranks"] for row in by_ranks] == [2**power for power in range(9)]
    bytes_max = [row["memory_requested_bytes_max"] for row in by_ranks]
    assert bytes_max == sorted(bytes_max, reverse=True) and bytes_max[0] > 3 * bytes_max[-1]


def test_changes_that_save_memory_are_shown_with_what_they_cost(plan, rows):
    words = ["--profile", "a100x4", "--only", "4xDDP", "--set", "batch.size_per_rank=36", "--suggest"]
    done = plan(*words)
    assert done.returncode == 0, done.stderr
    text = " ".join(done.stdout.split())
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
    words = ["--only", "1 GPU", "--set", "memory_limit_gib=0.046", "--suggest"]
    points = {row["point"]: row["fits"] for row in rows(*words)}
    [combined] = [point for point in points if point.count(" + ") == 2]
    assert [point for point, fits in points.items() if fits] == [combined]
    changes = combined.removeprefix("1 GPU + ")
    assert f"the least change that makes it fit: {changes}, " in " ".join(plan(*words).stdout.split())
    words[3] = "memory_limit_gib=0.001"
    text = " ".join(plan(*words).stdout.split())
    assert "1 GPU: does not fit with any of these changes; " in text


NEEDS_LORA = ["--only", "1 GPU", "--set", "memory_limit_gib=0.08"]


def test_other_methods_are_suggested_apart(plan, rows):
    words = [*NEEDS_LORA, "--suggest"]
    given, *suggested = rows(*words)
    [lora] = [row for row in suggested if row["point"] == "1 GPU + lora"]
    assert not given["fits"] and lora["fits"]
    assert lora["memory_device_bytes_max"] < given["memory_device_bytes_max"]
    assert given["trained_parameter_count"] == given["parameter_count"] == lora["parameter_count"]
    assert lora["trained_parameter_count"] < lora["parameter_count"] / 10
    text = plan(*words).stdout
    above, below = text.split("\nOther methods: they change what is trained, not only how\n")
    assert "1 GPU + lora" not in above and below.startswith("1 GPU + lora ")
    assert "lora: method=lora; adapters are trained in place of the model's parameters." in " ".join(below.split())
    assert rows(*NEEDS_LORA, "--set", "method=lora")[0]["memory_device_bytes_max"] == lora["memory_device_bytes_max"]


def test_a_run_that_fits_is_suggested_no_other_method(plan):
    for words in (["--set", "memory_limit_gib=1"], ["--set", "memory_limit_gib=0.0001", "--set", "method=lora"]):
        done = plan("--only", "1 GPU", *words, "--suggest")
        assert done.returncode == 0, done.stderr
        assert "+ lora" not in done.stdout and "Other methods" not in done.stdout


def test_max_finds_the_largest_rank_of_adapters(plan, rows):
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


def test_max_says_of_a_full_training_that_it_has_no_adapters(rows):
    [row] = rows("--only", "1 GPU", "--max", "lora.rank")
    assert row["point"] == "1 GPU" and row["notes"] == ["1 GPU: method: full has no lora.rank."]


def test_of_a_doubled_key_the_largest_value_is_planned(rows, plan):
    [doubled] = [row for row in rows("--only", "FSDP, doubled", file=CHESS)]
    assert doubled["fits"]
    value = int(doubled["point"].removeprefix("FSDP, doubled size_per_rank="))
    assert value > 1
    [next_one] = rows("--only", "FSDP", "--set", f"batch.size_per_rank={2 * value}", file=CHESS)
    assert not next_one["fits"]


def test_of_a_doubled_key_no_value_is_planned_that_the_sweep_does_not_try(rows, tmp_path):
    file = tmp_path / "doubled.yaml"
    file.write_text("""experiment: doubled
base: {data.kind: chess, device: cpu, memory_limit_gib: 8, train.steps: 2}
points: [{name: a}]
sweep: {double: {batch.size_per_rank: {from: 2, to: 8}}}
""")
    [row] = rows(file=file)
    assert row["point"] == "a size_per_rank=8" and row["fits"]


def test_what_the_sweep_doubles_is_not_set_besides(plan, rows, tmp_path):
    """Otherwise every run would have the set value, and the name of another value."""
    file = tmp_path / "doubled.yaml"
    file.write_text("""experiment: doubled
base: {device: cpu, memory_limit_gib: 0.1, data: {kind: chess, sequence_length: 16}, train.steps: 2}
points: [{name: a, strategy: {kind: fsdp}}]
sweep: {double: {KEY: {from: 1, to: 8}}}
""".replace("KEY", "batch.size_per_rank"))
    for words in (["--set", "batch.size_per_rank=1"], ["--set", "batch={size_per_rank: 1}"],
                  ["--set", "batch.size_per_rank=1", "--max", "batch.size_per_rank"]):
        done = plan(*words, file=file)
        assert done.returncode == 2 and "overrides what the sweep doubles" in done.stderr, done.stdout
    file.write_text(file.read_text().replace("batch.size_per_rank", "strategy.ranks"))
    for row in rows("--ranks", "1..4", file=file):
        assert row["point"] == f"a ranks={row['ranks']}"


def test_check_says_what_will_not_fit(request, trainer, tmp_path):
    runner = request.config.getoption("--runner").resolve()

    def check(limit: str) -> str:
        done = subprocess.run([runner, "check", LAB, "--trainer", trainer, "--set", f"memory_limit_gib={limit}"],
                              cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return " ".join(done.stdout.split())

    said = check("1")
    assert "predicted not to fit" not in said and "not known" not in said
    assert "Memory" in said and "Checkpoints" not in said
    said = check("0.1")
    assert "warning: 1 GPU is predicted not to fit: " in said and " of 0.100 GiB" in said
    assert "4xFSDP is predicted" not in said


def test_check_says_what_checkpoints_take(request, trainer, tmp_path):
    runner = request.config.getoption("--runner").resolve()
    words = ["--set", "checkpoint.every_steps=1", "--set", "train.steps=1000000", "--only", "1 GPU"]
    done = subprocess.run([runner, "check", LAB, "--trainer", trainer, *words], cwd=tmp_path, capture_output=True,
                          text=True, check=True)
    said = " ".join(done.stdout.split())
    assert "warning: checkpoints will take" in said and "see checkpoint.keep" in said


def test_where_no_memory_is_known_nothing_is_said_to_fit(plan):
    done = plan("--suggest", "--set", "device=cuda", "--only", "1 GPU")
    assert done.returncode == 0, done.stderr
    text = " ".join(done.stdout.split())
    assert "1 GPU: the GPU's memory is not known; name the GPU with --gpu." in text
    assert "fits as it is" not in text


def test_a_run_fits_if_the_ranks_of_a_node_fit_into_its_memory(request, trainer, tmp_path):
    runner = request.config.getoption("--runner").resolve()
    text = subprocess.run([runner, LAB, "--only", "offload", "--dry-run"], cwd=tmp_path, check=True,
                          capture_output=True, text=True).stdout

    def planned(memory_bytes: int) -> dict:
        device = {"kind": "cpu", "memory_bytes": 0, "context_bytes": 0, "compute_capability": 0, "name": ""}
        host = {"memory_bytes": memory_bytes, "ranks": 3}
        request = {"specification": text, "device": device, "host": host, "results": str(tmp_path), "timeline": False}
        done = subprocess.run([trainer, "--plan"], input=json.dumps(request) + "\n", check=True,
                              capture_output=True, text=True)
        return json.loads(done.stdout)["plan"]

    plan = planned(2**40)
    node = plan["memory_node_bytes_max"]
    assert plan["fit"] == "fits" and plan["memory_node_limit_bytes"] == 2**40
    assert node == 3 * plan["memory_host_bytes_max"] > 3 * plan["memory_requested_bytes_max"]
    assert planned(node - 1)["fit"] == "does_not_fit"
    assert planned(node)["fit"] == "tight"
    assert planned(0)["fit"] == "unknown"


OFFLOAD = ("--profile", "a100x4", "--gpu", "a100-80", "--only", "offload")


def test_a_gpu_run_is_judged_by_the_memory_of_its_host(rows, plan):
    """A run once offloaded 744 GB on a host with less memory, and was killed."""
    [row] = rows(*OFFLOAD)
    assert row["fits"] and row["memory_node_limit_bytes"] is None
    # The optimizer's two states and the parameters of 13 billion, on one host.
    node_gib = row["memory_node_bytes_max"] / 2**30
    assert row["memory_node_bytes_max"] > 3 * 2 * row["parameter_count"]
    [enough] = rows(*OFFLOAD, "--host-memory-gib", str(2 * node_gib))
    assert enough["fits"]
    [less] = rows(*OFFLOAD, "--host-memory-gib", str(node_gib / 2))
    assert not less["fits"]
    text = " ".join(plan(*OFFLOAD, "--host-memory-gib", str(node_gib / 2)).stdout.split())
    assert "GiB of a node's memory; offload less (strategy.offload)" in text and "does not fit" in text


def test_a_job_is_judged_by_the_memory_that_it_asks_for(rows):
    words = ["--launcher", "slurm", *OFFLOAD, "--set", "slurm.gpus_per_node=2", "--set", "slurm.nodes=2"]
    [row] = rows(*words, "--set", "slurm.mem=500G")
    assert row["fits"] and row["memory_node_bytes_max"] == 2 * row["memory_host_bytes_max"]
    assert row["memory_node_limit_bytes"] == 500 << 30
    [row] = rows(*words, "--set", "slurm.mem=5G")
    assert not row["fits"]


def test_the_host_stands_in_a_table_only_if_it_matters(plan):
    words = ("--profile", "a100x4", "--gpu", "a100-80")
    assert "Host" not in plan(*words, "--only", "4xDDP").stdout
    assert "Host" in plan(*OFFLOAD).stdout
    assert "Host" in plan(*words, "--only", "4xDDP", "--host-memory-gib", "1").stdout


def test_jobs_are_not_planned_for_the_login_node(rows):
    for row in rows("--launcher", "slurm", "--profile", "cpu"):
        assert row["device"] == "CPUs of the cluster" and row["memory_limit_bytes"] is None


def test_jobs_have_the_memory_that_they_ask_for(rows):
    """The requested memory is that of each node. The node's ranks share it."""
    words = ["--launcher", "slurm", "--profile", "cpu", "--set", "slurm.mem=3G"]
    for row in rows(*words):
        assert row["memory_limit_bytes"] == (3 << 30) // row["ranks"]
    for row in rows(*words, "--set", "slurm.nodes=2", "--only", "4xDDP"):
        assert row["memory_limit_bytes"] == (3 << 30) // (row["ranks"] // 2)


def test_on_the_cpu_the_memory_of_this_host_is_the_limit(rows):
    for row in rows():
        assert row["device"].startswith("the CPU")
        assert row["memory_limit_bytes"] > row["memory_device_bytes_max"]


@pytest.mark.parametrize("words, problem", [
    (["--max", "batch.size"], "'batch.size': is not a key that holds an integer"),
    (["--max", "strategy.kind"], "'strategy.kind': is not a key that holds an integer"),
    (["--ranks", "0"], "'0': is not a list of numbers from 1 to 100000; allowed: a number, a list (1,2,8) or a range (1..1024)"),
    (["--ranks", "8..4"], "'8..4': is not a list of numbers"),
    (["--ranks", "9999999999999999999"], "is not a list of numbers"),
    (["--ranks", "1..9223372036854775807"], "is not a list of numbers from 1 to 100000"),
    (["--profile", "none"], "no such profile"),
])
def test_mistakes_are_said(plan, words, problem):
    done = plan(*words)
    assert done.returncode == 2 and problem in done.stderr, done.stderr
    assert done.stdout == ""


def test_a_trainer_that_does_not_answer_is_named(request, tmp_path):
    runner = request.config.getoption("--runner").resolve()
    done = subprocess.run([runner, "plan", LAB, "--trainer", "/bin/true"], cwd=tmp_path, capture_output=True,
                          text=True)
    assert done.returncode == 1 and "/bin/true ended without an answer" in done.stderr, done.stderr


def test_a_run_that_cannot_be_planned_is_a_row(plan, tmp_path):
    file = tmp_path / "one.yaml"
    file.write_text("experiment: one\npoints:\n  - name: a\n    model.source: nowhere\n  - name: b\n")
    done = plan(file=file)
    assert done.returncode == 0, done.stderr
    assert "No plan for a" in done.stdout and "nowhere" in " ".join(done.stdout.split())


def test_requests_that_are_none_are_answered(trainer):
    done = subprocess.run([trainer, "--plan"], input="{}\nno\n[]\n" + "{" * 1000 + "\n", capture_output=True,
                          text=True, check=True)
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(answers) == 4
    assert all(answer["plan"] is None and answer["error"] for answer in answers)


@pytest.mark.parametrize("gpu", ["v100-16", "rtx4090", "a100-80"])
def test_a_plan_for_any_gpu_is_of_the_same_model(plan, rows, gpu):
    """Plans once took another profile for each GPU, and the CPU's profile for a V100."""
    for row in rows("--gpu", gpu):
        assert row["profile"] == "a100x4" and row["parameter_count"] == 6_738_415_616
        assert row["ranks"] == (1 if row["point"] == "1 GPU" else 4)
    text = plan("--gpu", gpu).stdout
    assert text.startswith(f"Profile a100x4: Llama 6.74B on 1 and 4 ranks, planned for {gpu}, "), text
    has_bf16 = gpu != "v100-16"
    assert ("has no hardware for bf16" not in text) == has_bf16


def test_a_device_may_be_named_beside_a_gpu(rows):
    assert len(rows("--gpu", "a100-80", "--set", "device=cuda")) == 5


@pytest.mark.parametrize("words, said", [
    (["--max", "data.sequence_length"], "The run allows no larger value, although memory may: "),
    (["--max", "batch.size_per_rank"], "4xFSDP: largest batch.size_per_rank that fits: "),
    (["--max", "data.sequence_length", "--set", "memory_limit_gib=0.1"], "data.sequence_length 1 does not fit."),
])
def test_what_bounds_the_largest_value_is_said(plan, words, said):
    done = plan("--gpu", "a100-80", "--only", "4xFSDP", *words)
    assert done.returncode == 0, done.stderr
    assert said in " ".join(done.stdout.split()), done.stdout


def test_step_times_of_a_gpu_that_is_not_there_are_marked(rows, plan):
    planned = {row["point"]: row for row in rows("--profile", "a100x4", "--gpu", "a100-80")}
    single, offload = planned["1 GPU"], planned["offload"]
    assert single["step_time_ms"] > 0 and single["communication_exposed_ms"] is None
    assert single["mfu_percent"] == single["hfu_percent"] > 0
    assert any("uncalibrated" in line for line in single["assumptions"])
    assert offload["step_time_ms"] is None and offload["mfu_percent"] is None
    text = plan("--profile", "a100x4", "--gpu", "a100-80", "--only", "1 GPU").stdout
    assert f"about {single['step_time_ms']:.0f} ms, whatever the strategy" in " ".join(text.split())
    assert "[ms]" not in text and "uncalibrated" in text


def test_units_that_are_kept_for_a_slow_gpu_are_said_not_to_be_counted(rows):
    words = ("--gpu", "a100-80", "--only", "4xFSDP", "--set", "strategy.limit_all_gathers=false")
    [sharded] = rows(*words)
    assert any("limit_all_gathers" in line for line in sharded["assumptions"])


def test_timelines_reach_the_peak(rows):
    for row in rows("--profile", "a100x4"):
        totals = [sum(value for name, value in moment.items() if name.endswith("_bytes"))
                  for moment in row["timeline"]]
        assert max(totals) == row["memory_requested_bytes_max"]
        assert [moment["phase"] for moment in row["timeline"]][0] == "start"
        assert {"forward", "backward"} <= {moment["phase"] for moment in row["timeline"]}


def test_a_page_is_written_where_it_is_asked_for(plan, tmp_path):
    done = plan("--format", "html", "--output", "page.html")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert "<h1>Plan of lab</h1>" in (tmp_path / "page.html").read_text()


def test_equal_runs_are_planned_once(request, trainer, tmp_path):
    asking = tmp_path / "trainer"
    asking.write_text(f'#!/bin/sh\n[ "$1" = --plan ] || exec {trainer} "$@"\ntee requests | {trainer} "$@"\n')
    asking.chmod(0o755)
    points = "".join(f"  - {{name: p{number}, batch.size_per_rank: {number // 3 + 1}}}\n" for number in range(6))
    (tmp_path / "equal.yaml").write_text(f"experiment: equal\npoints:\n{points}")
    runner = request.config.getoption("--runner").resolve()
    words = ["plan", "equal.yaml", "--format", "markdown", "--trainer", asking]
    done = subprocess.run([runner, *words], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.count("\n| p") == 6, done.stdout
    assert len((tmp_path / "requests").read_text().splitlines()) == 2
