import re

import pytest
from playwright.sync_api import expect
from results import GIBIBYTE
from window import bars, curves, drawn_size, row_labels

PER_RANK = "select * from comparison_per_rank where memory_allocated_bytes_max is not null"


def assert_ends(spans, values, pixel):
    """Checks that bars end at the values, within a pixel."""
    assert len(spans) == len(values)
    for span, value in zip(spans, values):
        assert (span is None) == (value is None)
        assert span is None or abs(span[1] - value) <= pixel


def assert_points(drawn, expected, size):
    assert len(drawn) == len(expected)
    for (x, y), (right_x, right_y) in zip(drawn, expected):
        assert abs(x - right_x) <= size[0] and abs(y - right_y) <= size[1]


def gibibytes(rows, name):
    return [row[name] / GIBIBYTE for row in rows]


def points(rows, x, y):
    return [[row[x], row[y]] for row in rows]


@pytest.mark.parametrize("width", [320, 1280])
def test_throughput_against_memory_with_what_did_not_fit_beside_it(open_report, results, width):
    page = open_report(width=width)
    drawn = curves(page, "throughput_memory")
    rows = results.rows("""select point, memory_allocated_bytes_max, tokens_per_second from comparison
        where status = 'finished' and tokens_per_second is not null""")
    assert list(drawn) == [row["point"] for row in rows]
    for row in rows:
        assert_points(drawn[row["point"]]["marks"], [[row["memory_allocated_bytes_max"] / GIBIBYTE,
                                                      row["tokens_per_second"]]],
                      drawn_size(page, "throughput_memory"))
    beyond = page.locator("[aria-labelledby=figure-throughput_memory] .beyond")
    failed = results.rows("select point from comparison where status = 'out_of_memory'")
    assert [mark.get_attribute("data-label") for mark in beyond.all()] == [row["point"] for row in failed]
    named = page.locator("[aria-labelledby=figure-throughput_memory] :is(.name, .legend text)")
    assert named.count() == len(rows)


def test_memory_of_each_rank_with_the_devices_limit(page, results):
    rows = results.rows(PER_RANK)
    assert len(rows) > 10
    drawn, (pixel, _) = bars(page, "memory"), drawn_size(page, "memory")
    assert_ends(drawn["allocated, peak"], gibibytes(rows, "memory_allocated_bytes_max"), pixel)
    assert_ends(drawn["reserved, peak"], gibibytes(rows, "memory_reserved_bytes_max"), pixel)
    assert_ends(drawn["allocated after forward"], gibibytes(rows, "memory_allocated_bytes_forward"), pixel)
    assert_ends(drawn["limit"], [80] * len(rows), pixel)
    assert row_labels(page, "memory")[:3] == ["1 GPU, rank 0", "4xDDP, rank 0", "rank 1"]


def test_memory_by_its_use_when_it_was_fullest(page, results):
    rows = results.rows("select point, memory_allocated_bytes_max from comparison "
                        "where memory_allocated_bytes_max is not null")
    drawn, (pixel, _) = bars(page, "composition"), drawn_size(page, "composition")
    assert row_labels(page, "composition") == [row["point"] for row in rows]
    peaks = gibibytes(rows, "memory_allocated_bytes_max")
    for layer, part in ("parameters", 1 / 2), ("activations", 3 / 4), ("rounded up by the allocator", 1):
        assert_ends(drawn[layer], [part * peak for peak in peaks], pixel)


def test_many_ranks_are_a_band(open_report, results):
    page = open_report(results.many_ranks_page)
    assert row_labels(page, "memory") == ["64 ranks, 64 ranks", "2 ranks, rank 0", "rank 1"]
    least, most = results.band_gibibytes
    band = bars(page, "memory")["least to most of the ranks"]
    assert band[0] == pytest.approx([least, most], abs=0.2)
    assert band[1:] == [None, None]


def test_step_time_with_quartiles_beside_communication(page, results):
    rows = results.rows("select * from comparison where step_time_ms_median is not null")
    drawn, (pixel, _) = bars(page, "step_time"), drawn_size(page, "step_time")
    assert row_labels(page, "step_time") == [row["point"] for row in rows]
    assert_ends(drawn["step"], [row["step_time_ms_median"] for row in rows], pixel)
    assert_ends(drawn["of it, communication"], [row["communication_time_ms_median"] for row in rows], pixel)
    for span, row in zip(drawn["quartiles"], rows, strict=True):
        assert span == pytest.approx([row["step_time_ms_p25"], row["step_time_ms_p75"]], abs=pixel)


def test_parts_of_a_step_add_up(page, results):
    rows = results.rows("select point, run from comparison where account_rank is not null")
    drawn, (pixel, _) = bars(page, "time_parts"), drawn_size(page, "time_parts")
    assert row_labels(page, "time_parts") == [row["point"] for row in rows]
    for layer, end in ("products", 60), ("all-gathers", 67):
        assert_ends(drawn[layer], [end] * len(rows), pixel)
    assert_ends(drawn["slower ranks"], [67 + row["run"] for row in rows], pixel)
    assert_ends(drawn["optimizer"], [72 + row["run"] for row in rows], pixel)
    assert "other work" not in drawn


def test_figures_against_the_doubled_key_with_out_of_memory_marked(page, results):
    for figure, column, scale in [("throughput", "tokens_per_second", 1),
                                  ("doubling_step_time", "step_time_ms_median", 1),
                                  ("doubling_memory", "memory_allocated_bytes_max", GIBIBYTE)]:
        drawn = curves(page, figure, logarithmic_x=True)
        _, pixel = drawn_size(page, figure)
        for family, does_not_fit in [("plain", 4), ("checkpointed", 8)]:
            rows = results.rows(f"""select family_value, {column} / {scale}.0 as figure
                from comparison where family = ? and status = 'finished' order by 1""", family)
            for shown in drawn[family].values():
                assert_points(shown, points(rows, "family_value", "figure"), (0.05, pixel))
            assert_points(drawn[f"{family}: out of memory"]["marks"], [[does_not_fit, 0]], (0.05, pixel))
    assert page.locator("figcaption b", has_text="Throughput against batch.size_per_rank").count() == 1


def test_throughput_against_ranks_beside_what_the_base_would_do_on_as_many(page, results):
    drawn, (_, pixel) = curves(page, "scaling", logarithmic_x=True), drawn_size(page, "scaling")
    speeds = {row["point"]: row["tokens_per_second"] for row in results.rows("select * from comparison")}
    one = speeds["1 GPU"]
    assert set(drawn) == {"as 1 GPU for each rank", "ddp, weak scaling", "fsdp, weak scaling"}
    for shown in drawn["ddp, weak scaling"].values():
        assert_points(shown, [[1, one], [4, speeds["4xDDP"]]], (0.05, pixel))
    assert_points(drawn["as 1 GPU for each rank"]["line"], [[1, one], [2, 2 * one], [4, 4 * one]], (0.05, pixel))


def test_losses_over_steps_and_over_what_was_seen(page, results):
    for figure, table in [("training_loss", "steps"), ("validation_loss", "evaluations")]:
        for name in [figure, f"{figure}_sequences"]:
            drawn, size = curves(page, name), drawn_size(page, name)
            for run in results.rows("""select run, point, steps, spec ->> '$.batch.total' as total_batch
                    from comparison where steps > 0"""):
                each = run["total_batch"] if name.endswith("sequences") else 1
                rows = results.rows(f"""select step * {each} as x, loss from {table}
                    where run = ? and rank = 0 order by step""", run["run"])
                line = drawn[run["point"]]["line"]
                if len(rows) <= 500:
                    assert_points(line, points(rows, "x", "loss"), size)
                else:  # thinned
                    assert 400 < len(line) <= 500
                    assert_points([line[0], line[-1]], points([rows[0], rows[-1]], "x", "loss"), size)
    note = page.locator("figure", has_text="Training loss over steps").locator("figcaption").text_content()
    assert "1 GPU: 500 of 1200 points are drawn." in note


def test_curves_that_coincide_are_drawn_over_each_other_from_wide_to_narrow(page, results):
    figure = page.locator("[aria-labelledby=figure-training_loss_sequences]")
    equal = ["plain size_per_rank=1", "checkpointed size_per_rank=1"]
    assert ", ".join(equal) in figure.locator("figcaption").text_content()
    widths = [figure.locator(f"[data-label='{name}'] > path").first.evaluate(
        "(path) => parseFloat(getComputedStyle(path).strokeWidth)") for name in [*equal, "4xDDP"]]
    assert widths == [5, 2, 2]


def test_curves_coincide_only_if_no_two_of_them_lie_apart(page):
    note = page.evaluate("""() => {
      const curve = (label, y) => ({label, points: [{x: 1, y: 0}, {x: 2, y}, {x: 3, y: 1000}]});
      const curves = [curve("A", 100), curve("B", 102.9), curve("C", 97.1)];
      return coincidenceNote(curves, curvesBelow(curves));
    }""")
    assert note == "A, B coincide: wide lines lie below narrow ones."


def test_utilization_of_every_device(page, results):
    run = results.rows("select run, attempt, point from comparison where point = '4xDDP'")[0]
    figure = f"utilization_{run['run']}"
    drawn, size = curves(page, figure), drawn_size(page, figure)
    assert list(drawn) == ["cpu", "gpu:0", "gpu:1"]
    for device in drawn:
        rows = results.rows(
            """select (d.time_unix_ms - a.started_unix_ms) / 1000.0 as x, utilization_percent
               from device_samples d join attempts a using (run, attempt)
               where run = ? and attempt = ? and device = ? order by d.time_unix_ms""",
            run["run"], run["attempt"], device)
        assert len(rows) == 20
        assert_points(drawn[device]["line"], points(rows, "x", "utilization_percent"), size)


def test_gpu_hours_and_energy(page, results):
    table = page.locator("#costs table")
    rows = results.rows("""select c.*, (select sum(1.0 * time_ms * coalesce(gpus_held, spec ->> '$.strategy.ranks'))
        from attempt_times t where t.run = c.run) as gpu_time_ms
        from comparison c where gpu_time_ms is not null and spec ->> '$.device' = 'cuda' order by position""")
    shown = table.locator("tbody tr").evaluate_all(
        "(rows) => rows.map((row) => [...row.cells].map((cell) => cell.dataset.value))")
    assert [[cell and float(cell) for cell in cells[2:4]] for cells in shown] == [
        [row["gpu_time_ms"] / 3.6e6, row["energy_joules"] and row["energy_joules"] / 3600]
        for row in rows]


def test_figures_are_numbered_and_have_their_data_as_a_table(page):
    figures = page.locator("figure")
    assert figures.count() == page.evaluate("report.figures.length") > 10
    for number, figure in enumerate(figures.all(), start=1):
        title = figure.locator("figcaption b").text_content()
        assert title.startswith(f"Figure {number}. ")
        drawing = figure.locator(".drawing")
        assert drawing.get_attribute("role") == "img"
        assert drawing.get_attribute("aria-label").startswith(title.removeprefix(f"Figure {number}. "))
        details = figure.locator("details")
        assert details.locator("table").count() == 0
        details.locator("summary").press("Enter")
        expected = page.evaluate(
            """(id) => report.figures.find((figure) => `figure-${figure.id}` === id).rows.length""",
            figure.get_attribute("aria-labelledby"))
        assert expected > 0
        expect(details.locator("tbody tr")).to_have_count(expected)


def test_a_saved_figure_stands_alone_in_the_colours_of_the_light_page(open_report, browser, tmp_path):
    page = open_report(color_scheme="dark")
    with page.expect_download() as download:
        page.locator("figure").nth(1).get_by_role("button", name="Save as SVG").click()
    assert download.value.suggested_filename == "figure-2-memory.svg"
    file = tmp_path / "figure.svg"
    download.value.save_as(file)
    text = file.read_text()
    assert "var(" not in text
    light = page.evaluate("""[...document.styleSheets[0].cssRules]
        .find(({selectorText}) => selectorText === ":root").style.getPropertyValue("--allocated").trim()""")
    assert re.search(r"fill: rgb\(0, 103, 166\)|fill: " + light, text)
    alone = browser.new_page()
    alone.goto(file.as_uri())
    assert alone.evaluate("document.documentElement.tagName") == "svg"
    assert alone.evaluate("document.querySelectorAll('.bar').length") == page.evaluate(
        "document.querySelectorAll('figure:nth-of-type(2) .bar').length")
    alone.close()
