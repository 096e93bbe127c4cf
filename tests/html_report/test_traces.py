"""The figures of traced steps: memory over a step, and the streams of each rank."""

import gzip
import json
import math
import shutil

import pytest
from results import GIBIBYTE, HOSTILE, add_ranks, index_for_good, opened, run_program
from window import READ, curves, drawn_size, layout_problems, open_everything, wait_until

MS = 1_000_000
BLOCKS = 32
RANKS = 8
STEPS = (3, 4)
FORWARD = ["exposed_all_gather_forward", "kernels_forward", "products_forward", "attention_forward"]
BACKWARD = ["exposed_all_gather_backward", "kernels_backward", "products_backward", "attention_backward"]


def spans(rank):
    """A step of 32 blocks, each of whose parts takes 0.1 ms, less on later ranks, and 0.5 ms of the optimizer."""
    at, found = 0, []

    def add(kind, name, time_ns, unit=None, begin_ns=None, size=0):
        found.append({"kind": kind, "name": name, "unit": unit, "bytes": size,
                      "begin_ns": at if begin_ns is None else begin_ns, "time_ns": time_ns})

    for unit in [*range(BLOCKS), *reversed(range(BLOCKS))]:
        is_forward = len(found) < 10 * BLOCKS
        add("collective", "all_gather", MS // 5, unit, max(0, at - MS // 10), 4096)
        add("work", "block forward" if is_forward else "block backward", 9 * MS // 10, unit)
        for part in range(9):
            add("part", (FORWARD if is_forward else BACKWARD)[part % 4], MS // 10 - rank * 1000, unit)
            at = found[-1]["begin_ns"] + found[-1]["time_ns"]
    add("beside", "conversion", MS // 2, begin_ns=at - MS // 4)
    add("part", "optimizer", MS // 2)
    return found


def memory():
    """The parameters, and a step that allocates 1 GiB for each block and releases it."""
    change = {"is_release": False, "pool": 0, "at_ns": 0, "unit": None, "phase": "forward"}
    changes = [change | {"address": 64, "bytes": 4 * GIBIBYTE, "use": "parameters", "phase": "start"}]
    blocks = [change | {"address": 128 + unit, "bytes": GIBIBYTE, "use": "mlp", "unit": unit, "at_ns": unit}
              for unit in range(BLOCKS)]
    return changes + blocks + [block | {"is_release": True, "at_ns": 99} for block in reversed(blocks)]


@pytest.fixture(scope="module")
def page_file(results, runner):
    """The page of a folder in which a run of 8 ranks has left traces."""
    folder = results.folder / "traced"
    shutil.copytree(results.folder / "results", folder)
    index_for_good(runner, results.folder, "traced")
    with opened(folder) as database:
        [row] = database.execute("select folder, attempt, run from comparison where point = '4xDDP'")
        add_ranks(database, row["run"], RANKS)
        database.execute("update ranks set device_memory_bytes = ?, host = ? where run = ?",
                         (80 * GIBIBYTE, HOSTILE, row["run"]))
        database.execute("update attempts set memory_allocated_bytes_predicted = ? where run = ?",
                         (30 * GIBIBYTE, row["run"]))
    for rank in range(RANKS):
        steps = [{"step": step, "begin_unix_ms": 1_700_000_000_000 + 100 * number,
                  "memory_changes_before": 1 if number == 0 else 65, "memory_changes_at_end": 65,
                  "spans": spans(rank)} for number, step in enumerate(STEPS)]
        file = folder / row["folder"] / f"attempt-{row['attempt']}" / f"trace.rank{rank}.json.gz"
        file.write_bytes(gzip.compress(json.dumps({"steps": steps, "memory": memory()}).encode()))
    run_program(runner, results.folder, "report", "experiment.yaml", "--results", folder, "--output", "traces.html")
    return results.folder / "traces.html"


def streams(page):
    """Returns row label -> layer -> the [begin, end] of each rectangle, in values of the axis."""
    return page.evaluate("""() => {
      const {box, numbers, place, reader} = READ("streams_0");
      const x = reader("x", 0);
      const spans = (path) => path.getAttribute("d").split("M").filter(Boolean)
        .map((part) => numbers(part)).map(([left, , width]) => [x(left), x(left + width)]);
      return Object.fromEntries([...box.querySelectorAll(".row")].map((row) => [row.dataset.label,
        Object.fromEntries([...row.querySelectorAll("path")].map((path) => [path.dataset.layer, spans(path)]))]));
    }""".replace("READ", f"({READ})"))


def test_each_ranks_streams_are_drawn(open_report, page_file):
    page = open_report(page_file)
    drawn, (pixel, _) = streams(page), drawn_size(page, "streams_0")
    assert list(drawn) == [f"rank {rank}, {stream}" for rank in range(RANKS)
                           for stream in ("computation", "collectives", "other streams")]
    for rank in range(RANKS):
        own = drawn[f"rank {rank}, computation"]
        assert set(own) == {"all-gathers", "other kernels", "products", "attention", "optimizer"}
        assert len(own["products"]) == 2 * 2 * 2 * BLOCKS  # in 2 steps, 2 in each forward and backward of a block
        wait = 0.1 - rank * 0.001
        begin, end = own["all-gathers"][0]
        assert abs(begin) <= pixel and abs(end - wait) <= 2 * pixel
        for number in range(len(STEPS)):
            begin, end = own["optimizer"][number]
            assert abs(begin - (100 * number + 2 * BLOCKS * 9 * wait)) <= 2 * pixel and abs(end - begin - 0.5) <= pixel
        assert len(drawn[f"rank {rank}, collectives"]["collectives"]) == 2 * 2 * BLOCKS


def test_the_part_under_the_pointer_is_named_and_a_double_click_enlarges(open_report, page_file):
    page = open_report(page_file)
    field = page.locator("[aria-labelledby=figure-streams_0] .field")
    field.scroll_into_view_if_needed()
    box = field.bounding_box()
    left = math.ceil(box["x"]) + 3
    moment_ns = (left - box["x"]) / box["width"] * (100 + 2 * BLOCKS * 0.9 + 0.5) * MS
    under = next(span for span in spans(0) if span["kind"] == "part" and
                 span["begin_ns"] <= moment_ns <= span["begin_ns"] + span["time_ns"])
    said = page.locator("[aria-labelledby=figure-streams_0] svg > text").first
    before = drawn_size(page, "streams_0")[0]
    for _ in range(4):
        page.mouse.move(left, box["y"] + 5)
        assert said.text_content() == f"rank 0, computation: {under['name']}, unit {under['unit']}, 0.1 ms"
        page.mouse.dblclick(left, box["y"] + 5)
    assert drawn_size(page, "streams_0")[0] < before / 10


def test_memory_over_a_step_begins_with_what_was_there(open_report, page_file):
    page = open_report(page_file)
    drawn, (_, pixel) = curves(page, "step_memory_0"), drawn_size(page, "step_memory_0")
    assert set(drawn) == {"parameters", "activations", "planned peak", "limit"}
    assert all(abs(y - 4) <= pixel for _, y in drawn["parameters"]["line"][:2 * BLOCKS])
    assert abs(max(y for _, y in drawn["activations"]["line"]) - (4 + BLOCKS)) <= pixel
    assert all(abs(y - 30) <= pixel for _, y in drawn["planned peak"]["line"])
    assert all(abs(y - 80) <= pixel for _, y in drawn["limit"]["line"])


def test_at_every_width_traces_are_whole(open_report, page_file):
    page = open_report(page_file)
    open_everything(page)
    for width in (1280, 390, 320):
        page.set_viewport_size({"width": width, "height": 900})
        wait_until(page, """report.figures.every(({box}) =>
            box.firstChild.getAttribute("width") === String(Math.floor(box.clientWidth)))""")
        assert (width, layout_problems(page)) == (width, [])


def test_a_trace_that_cannot_be_read_leaves_the_page_whole(open_report, results, runner, page_file):
    folder = results.folder / "traced"
    trace = next(folder.rglob("trace.rank0.json.gz"))
    data = trace.read_bytes()
    trace.write_text("{")
    try:
        run_program(runner, results.folder, "report", "experiment.yaml", "--results", folder, "--output",
                    "damaged.html")
    finally:
        trace.write_bytes(data)
    page = open_report(results.folder / "damaged.html")
    assert page.locator("[aria-labelledby=figure-streams_0]").count() == 0
    assert page.locator("[aria-labelledby=figure-step_time]").count() == 1
