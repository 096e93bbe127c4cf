"""`export --format trace` writes what Holistic Trace Analysis reads, and its sums are those of the accounts. The memory
of `export --format memory` is what was counted and planned."""

import gzip
import itertools
import json
import pickle
import subprocess

import pytest
import torch.cuda._memory_viz as memory_viz
from hostile.event_model import BYTES_BY_USE, MS_BY_PART
from hta.trace_analysis import TraceAnalysis
from token_rows import write_tokens
from trainer import of_kind, read_events

RANKS = 2
EXPERIMENT = """experiment: traced
base:
  device: cpu
  threads_per_rank: 1
  model.config: {num_hidden_layers: 3, hidden_size: 128, intermediate_size: 256, num_attention_heads: 4,
                 num_key_value_heads: 4, vocab_size: 512}
  data: {kind: tokens, train: tokens.npy, sequence_length: 64}
  batch.size_per_rank: 2
  train: {steps: 6}
points:
  - {name: fsdp, strategy: {kind: fsdp, ranks: 2}, train.trace_steps: 2,  # long kernels: HTA rounds to microseconds
     model.config.hidden_size: 256, model.config.intermediate_size: 512}
  - {name: evaluated, train.trace_steps: 10, evaluation: {every_steps: 1, fraction: 0.3, size_per_rank: 16}}
"""
# Waits, and work without a name. All other parts are kernels.
WAITS = {"exposed_all_gather_forward", "exposed_all_gather_backward", "exposed_reduce_scatter", "exposed_all_reduce",
         "slower_ranks", "copies", "data", "other_work"}


@pytest.fixture(scope="module")
def folder(runner, trainer, tmp_path_factory):
    folder = tmp_path_factory.mktemp("traced")
    write_tokens(folder)
    (folder / "traced.yaml").write_text(EXPERIMENT)
    subprocess.run([runner, "traced.yaml", "--trainer", trainer], cwd=folder, check=True, capture_output=True)
    return folder


def union_us(events):
    covered, until = 0, 0
    for event in sorted(events, key=lambda event: event["ts"]):
        end = event["ts"] + event["dur"]
        covered += max(0, end - max(event["ts"], until))
        until = max(until, end)
    return covered


def test_traces_have_the_sums_of_the_accounts(call, folder):
    call("export", "fsdp", "--to", "traces", "--format", "trace", "--force", cwd=folder)
    run, = (folder / "traces/traced").iterdir()
    assert sorted(file.name for file in run.iterdir()) == [f"rank{rank}.json.gz" for rank in range(RANKS)]
    of_run = next((folder / "results/runs/traced").glob("fsdp*"))
    found = []
    for rank in range(RANKS):
        trace = json.loads(gzip.decompress((run / f"rank{rank}.json.gz").read_bytes()))
        assert trace["distributedInfo"] == {"rank": rank, "world_size": RANKS}
        spans = [event for event in trace["traceEvents"] if event["ph"] == "X"]
        steps = [span for span in spans if span["name"].startswith("ProfilerStep#")]
        assert [span["name"] for span in steps] == ["ProfilerStep#3", "ProfilerStep#4"]
        written = read_events(of_run, rank)
        accounts = {event["step"]: event for event in of_kind("step_account", written)}
        times = {event["step"]: event for event in of_kind("step", written)}
        for step, span in zip((3, 4), steps, strict=True):
            inside = [event for event in spans if event is not span and
                      span["ts"] <= event["ts"] < span["ts"] + span["dur"]]
            of_stream = [event for event in inside if event["tid"] == 7 and event["cat"] in ("kernel", "wait")]
            for name in MS_BY_PART:
                part = name.removesuffix("_ms")
                own = [event for event in of_stream if event["name"] == part]
                assert {event["cat"] for event in own} <= {"wait" if part in WAITS else "kernel"}
                if part not in WAITS:
                    assert sum(event["dur"] for event in own) == pytest.approx(1e3 * accounts[step][name], abs=1)
            assert sum(event["dur"] for event in of_stream) == pytest.approx(1e3 * times[step]["step_time_ms"], abs=1)
            collectives = [event for event in inside if event["name"].startswith("ncclDevKernel")]
            assert union_us(collectives) == pytest.approx(1e3 * times[step]["communication_time_ms"], abs=1)
            found.append({(event["name"], event["args"].get("unit"), event["args"]["bytes"]) for event in collectives
                          if "AllReduce" not in event["name"]})
            assert {event["name"].split()[-1] for event in inside if event["cat"] == "gpu_user_annotation"} >= {
                "forward", "backward", "optimizer"}
    # Each unit is gathered whole, and its gradient is as large.
    assert all(collectives == found[0] for collectives in found)
    gathered = {(unit, size) for name, unit, size in found[0] if name.endswith("AllGather")}
    reduced = {(unit, size) for name, unit, size in found[0] if name.endswith("ReduceScatter")}
    assert gathered == reduced and len(gathered) == 5


def test_holistic_trace_analysis_agrees(call, folder):
    call("export", "fsdp", "--to", "traces", "--format", "trace", "--force", cwd=folder)
    run, = (folder / "traces/traced").iterdir()
    analysis = TraceAnalysis(trace_dir=str(run))
    overlap = analysis.get_comm_comp_overlap(visualize=False).set_index("rank")["comp_comm_overlap_pctg"]
    busy = analysis.get_temporal_breakdown(visualize=False).set_index("rank")
    for rank in range(RANKS):
        trace = json.loads(gzip.decompress((run / f"rank{rank}.json.gz").read_bytes()))
        # The program leaves out the last step.
        first = next(event for event in trace["traceEvents"] if event["name"] == "ProfilerStep#3")
        kernels = [event for event in trace["traceEvents"]
                   if event.get("cat") == "kernel" and event["ts"] < first["ts"] + first["dur"]]
        communication = [event for event in kernels if event["name"].startswith("nccl")]
        computation = [event for event in kernels if event not in communication]
        assert busy["compute_time(us)"][rank] == pytest.approx(union_us(computation), rel=0.01)
        both = union_us(communication) + union_us(computation) - union_us(kernels)
        assert overlap[rank] == pytest.approx(100 * both / union_us(communication), rel=0.02)


def peak_of(snapshot):
    """Returns the most bytes, and the bytes of each use then."""
    allocated, most, at_most = {}, 0, {}
    for event in snapshot["device_traces"][0]:
        if event["action"] == "alloc":
            allocated[event["category"]] = allocated.get(event["category"], 0) + event["size"]
        elif event["action"] == "free_requested":
            allocated[event["category"]] -= event["size"]
        if sum(allocated.values()) > most:
            most, at_most = sum(allocated.values()), {use: size for use, size in allocated.items() if size}
    return most, at_most


def uses_of(peak):
    return {use.removesuffix("_bytes"): peak[use] for use in BYTES_BY_USE if peak[use]}


def test_snapshots_of_memory_have_the_peak_to_the_byte(call, folder):
    call("export", "fsdp", "--to", "memory", "--format", "memory", cwd=folder)
    run, = (folder / "memory/traced").iterdir()
    of_run = next((folder / "results/runs/traced").glob("fsdp*"))
    for rank in range(RANKS):
        snapshot = pickle.loads((run / f"rank{rank}.pickle").read_bytes())
        written = read_events(of_run, rank)
        steps = [event for event in of_kind("step", written) if event["step"] in (3, 4)]
        peak, uses = peak_of(snapshot)
        assert peak == max(step["memory_allocated_bytes_max"] for step in steps)
        # Each step's peak is like the first step's, which was reported.
        assert uses == uses_of(of_kind("memory_peak", written)[-1])
        # PyTorch's own programs read it.
        assert "total_reserved" in memory_viz.segsum(snapshot)
        assert "Device 0" in memory_viz.trace(snapshot)
        assert "<html>" in memory_viz.trace_plot(snapshot)
        lines = memory_viz.memory(snapshot, format_flamegraph=str).splitlines()
        assert sum(int(line.rsplit(" ", 1)[1]) for line in lines) == sum(
            segment["total_size"] for segment in snapshot["segments"])


def test_a_steps_memory_is_without_the_evaluations_between_steps(folder):
    of_run = next((folder / "results/runs/traced").glob("evaluated*"))
    trace = json.loads(gzip.decompress((of_run / "attempt-1/trace.rank0.json.gz").read_bytes()))
    assert [step["step"] for step in trace["steps"]] == [3, 4, 5, 6]  # the run ends before the tenth
    written = {step["step"]: step for step in of_kind("step", read_events(of_run))}
    levels = list(itertools.accumulate((-1 if change["is_release"] else 1) * change["bytes"]
                                       for change in trace["memory"]))
    for step in trace["steps"]:
        begin, end = step["memory_changes_before"], step["memory_changes_at_end"]
        assert max(levels[begin - 1:end]) == written[step["step"]]["memory_allocated_bytes_max"]
    assert len(levels) == end
    assert max(levels) > max(step["memory_allocated_bytes_max"] for step in written.values())  # in an evaluation


def test_a_snapshot_of_a_plan_has_the_planned_peak(call, trainer, folder):
    call("plan", "traced.yaml", "--trainer", trainer, "--trace", "planned", cwd=folder)
    plan, _ = json.loads(call("plan", "traced.yaml", "--trainer", trainer, "--format", "json", cwd=folder).stdout)
    peak, uses = peak_of(pickle.loads((folder / "planned/fsdp.pickle").read_bytes()))
    assert peak == plan["memory_requested_bytes_max"]
    assert uses == uses_of(plan["peak"])
