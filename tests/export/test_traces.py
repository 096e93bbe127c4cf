"""trace and memory write what PyTorch's profiler and allocator would, from the traces that ranks leave. Real ones:
tests/why/test_traces.py."""

import gzip
import json
import pickle

import pytest

MS = 1_000_000


def span(kind, name, begin_ms, time_ms, unit=None, size=0):
    return {"kind": kind, "name": name, "unit": unit, "bytes": size, "begin_ns": int(begin_ms * MS),
            "time_ns": int(time_ms * MS)}


def change(address, size, at_ns, is_release=False, use="mlp", unit=1):
    return {"address": address, "bytes": size, "is_release": is_release, "use": use, "phase": "forward", "unit": unit,
            "pool": 0, "at_ns": at_ns}


MEMORY = [change(64, 100, 0, use="parameters", unit=None), change(256, 50, 1 * MS), change(256, 50, 2 * MS, True),
          change(256, 70, 2 * MS), change(64, 100, 3 * MS, True, "parameters", None)]
STEPS = [
    {"step": 3, "begin_unix_ms": 1_700_000_000_000, "memory_changes_before": 1,
     "memory_changes_at_end": 4, "spans": [
        span("part", "products_forward", 0, 4, unit=1), span("work", "block forward", 0, 4, unit=1),
        span("part", "exposed_all_gather_forward", 4, 6),
        span("collective", "all_gather", 0.5, 9.5, unit=2, size=4096),
        span("collective", "all_gather", 2, 5, unit=3, size=8), span("collective", "reduce_scatter", 9, 1, unit=1, size=6),
        span("beside", "copy to the host", 1, 2), span("beside", "conversion", -0.5, 0.75), span("part", 'a "name"', 10, 2.000001)]},
    # Its first work was issued while the step before was under way. A copy lasts longer than the step.
    {"step": 4, "begin_unix_ms": 1_700_000_000_005, "memory_changes_before": 5,
     "memory_changes_at_end": 5, "spans": [
        span("part", "optimizer", 0, 1), span("beside", "copy to the device", 0.25, 2)]},
]


@pytest.fixture
def attempt(workplace):
    """The folder of the first attempt of the run of 3 ranks. Its traces are removed in the end."""
    run, = workplace.rows("select folder, attempt from comparison where run = 1")
    folder = workplace.folder / "results" / run["folder"] / f"attempt-{run['attempt']}"
    yield folder
    for trace in folder.glob("trace.*"):
        trace.unlink()


def write_trace(attempt, rank, steps=STEPS, memory=MEMORY):
    file = attempt / f"trace.rank{rank}.json.gz"
    file.write_bytes(gzip.compress(json.dumps({"steps": steps, "memory": memory}).encode()))
    return file


def test_each_span_is_an_event_of_a_stream(workplace, attempt):
    later = [dict(step, begin_unix_ms=step["begin_unix_ms"] + 2) for step in STEPS]
    write_trace(attempt, 0)
    write_trace(attempt, 2, later)
    folder = workplace.run_folder(workplace.export("traces", "--format", "trace"), 1)
    assert sorted(file.name for file in folder.iterdir()) == ["rank0.json.gz", "rank2.json.gz"]
    traces = [json.loads(gzip.decompress((folder / f"rank{rank}.json.gz").read_bytes())) for rank in (0, 2)]
    assert [trace["distributedInfo"]["rank"] for trace in traces] == [0, 2]
    assert {trace["baseTimeNanoseconds"] for trace in traces} == {1_699_999_999_999_000_000}
    events = [[(event["cat"], event["name"], event["tid"], event["ts"], event["dur"]) for event in trace["traceEvents"]
               if event["ph"] == "X" and event["cat"] != "cuda_runtime"] for trace in traces]
    assert events[0] == [
        ("user_annotation", "ProfilerStep#3", 1, 1000, 12000.001),
        ("kernel", "conversion", 1000, 500, 750),
        ("kernel", "products_forward", 7, 1000, 4000),
        ("gpu_user_annotation", "block forward", 7, 1000, 4000),
        ("kernel", "ncclDevKernel_AllGather", 20, 1500, 9500),
        ("kernel", "Memcpy DtoH (Device -> Pinned)", 1000, 2000, 2000),
        ("kernel", "ncclDevKernel_AllGather", 21, 3000, 5000),  # two are under way at once
        ("wait", "exposed_all_gather_forward", 7, 5000, 6000),
        ("kernel", "ncclDevKernel_ReduceScatter", 21, 10000, 1000),
        ("wait", 'a "name"', 7, 11000, 2000.001),
        ("user_annotation", "ProfilerStep#4", 1, 13000.001, 1000),
        ("kernel", "optimizer", 7, 13000.001, 1000),
        ("kernel", "Memcpy HtoD (Pinned -> Device)", 1000, 13250.001, 2000),
    ]
    assert events[1][0] == ("user_annotation", "ProfilerStep#3", 1, 3000, 12000.001)
    first = next(event for event in traces[0]["traceEvents"] if event["name"] == "ncclDevKernel_AllGather")
    assert (first["args"]["unit"], first["args"]["bytes"], first["args"]["stream"]) == (2, 4096, 20)
    kernels = [event for event in traces[0]["traceEvents"] if event.get("cat") == "kernel"]
    launches = [event for event in traces[0]["traceEvents"] if event.get("cat") == "cuda_runtime"]
    assert [(launch["ts"], launch["args"]["correlation"]) for launch in launches] == [
        (max(1000, kernel["ts"]), kernel["args"]["correlation"]) for kernel in kernels]  # in the step
    memory = [(event["name"], event["ts"], event["args"]["bytes"]) for event in traces[0]["traceEvents"]
              if event["ph"] == "C"]
    assert memory == [("allocated memory", 1000, 100), ("allocated memory", 2000, 150), ("allocated memory", 3000, 170),
                      ("allocated memory", 4000, 70)]


def test_each_change_of_memory_is_an_event_of_the_allocator(workplace, attempt):
    write_trace(attempt, 2)
    folder = workplace.run_folder(workplace.export("snapshots", "--format", "memory"), 1)
    snapshot = pickle.loads((folder / "rank2.pickle").read_bytes())
    [events] = snapshot["device_traces"]
    assert [tuple(event[name] for name in ("action", "addr", "size", "time_us", "category")) for event in events] == [
        ("alloc", 64, 100, 0, "parameters"), ("alloc", 256, 50, 1000, "mlp"),
        ("free_requested", 256, 50, 2000, "mlp"), ("free_completed", 256, 50, 2000, "mlp"),
        ("alloc", 256, 70, 2000, "mlp"),
        ("free_requested", 64, 100, 3000, "parameters"), ("free_completed", 64, 100, 3000, "parameters"),
        ("snapshot", 0, 0, 0, "unknown")]  # without this category, PyTorch's page fails
    assert events[1]["frames"] == [{"filename": "forward", "line": 1, "name": "mlp"}]
    assert [(segment["address"], segment["total_size"]) for segment in snapshot["segments"]] == [(256, 70)]


def test_a_snapshot_of_many_changes_is_whole(workplace, attempt):
    """Lists are written in pieces of 1000, because PyTorch's page passes each as arguments of one call."""
    memory = [change(64 + i, 1, 0) for i in range(4567)]
    write_trace(attempt, 0, memory=memory)
    folder = workplace.run_folder(workplace.export("many", "--format", "memory"), 1)
    snapshot = pickle.loads((folder / "rank0.pickle").read_bytes())
    assert [event["addr"] for event in snapshot["device_traces"][0][:-1]] == [64 + i for i in range(4567)]
    assert [segment["address"] for segment in snapshot["segments"]] == [64 + i for i in range(4567)]


def test_without_a_trace_it_says_how_to_get_one(workplace):
    done = workplace.call("export", "--to", "none", "--format", "trace")
    assert done.returncode == 2
    assert "no run has left a trace: set train.trace_steps: 2, and run again" in done.stderr
    assert not (workplace.folder / "none").exists()


@pytest.mark.parametrize("text", [
    "", "{", "[]", '{"steps": [], "memory": []}', '{"steps": [{"step": 3}], "memory": []}',
    *(json.dumps({"memory": MEMORY, "steps": [dict(STEPS[1], **other)]}) for other in (
        {"begin_unix_ms": -1}, {"begin_unix_ms": 2**62}, {"spans": [span("part", "optimizer", -1e12, 1)]},
        {"spans": [span("part", "optimizer", 0, 1e12)]}, {"spans": [span("other", "optimizer", 0, 1)]},
        {"memory_changes_before": -1}, {"memory_changes_at_end": 4}, {"memory_changes_at_end": 6}, {"step": -1},
        {"spans": [dict(STEPS[1]["spans"][0], begin_ns=-2**63)]}, {"spans": [span("part", "x" * 201, 0, 1)]},
        {"spans": [span("collective", "all_gather", 0, 1, size=-1)]}, {"spans": [span("part", "data", 0, 1, unit=-5)]})),
    json.dumps({"steps": 101 * STEPS, "memory": MEMORY}),
    json.dumps({"steps": STEPS, "memory": MEMORY + [change(1000 + i, 2**49, 0) for i in range(3)]}),
    *(json.dumps({"steps": STEPS, "memory": MEMORY + [other]}) for other in (
        change(64, 100, 0, True), change(256, 1, 0), change(256, 71, 0, True), change(256, 70, 0, True, "other"),
        change(512, -1, 0), change(512, 2**60, 0), change(512, 1, -1), change(512, 1, 0, use="other things")))])
def test_a_damaged_trace_is_named(workplace, attempt, text):
    file = write_trace(attempt, 1)
    file.write_bytes(gzip.compress(text.encode()))
    done = workplace.call("export", "--to", "damaged", "--format", "trace")
    assert done.returncode not in (0, -6, -11)
    assert f"{file.relative_to(workplace.folder)} is not what fsdp-train writes there" in " ".join(done.stderr.split())
    assert not (workplace.folder / "damaged").exists()


@pytest.mark.parametrize("damage", [lambda data: b"", lambda data: data[:-9], lambda data: data[::-1],
                                    lambda data: b"{}", lambda data: gzip.compress(b" " * (257 << 20))])
def test_a_damaged_file_is_named(workplace, attempt, damage):
    file = write_trace(attempt, 1)
    file.write_bytes(damage(file.read_bytes()))
    done = workplace.call("export", "--to", "damaged", "--format", "memory")
    assert done.returncode not in (0, -6, -11)
    assert f"{file.relative_to(workplace.folder)} is not what fsdp-train writes there" in " ".join(done.stderr.split())
