from playwright.sync_api import expect
from window import chart_data, chart_labels

GIBIBYTE = 2**30
PER_RANK = "select * from comparison_per_rank where memory_allocated_bytes_max is not null"


def gibibytes(rows, name):
    return [row[name] / GIBIBYTE for row in rows]


def points(rows, x, y):
    return [{"x": row[x], "y": row[y]} for row in rows]


def test_memory_of_each_rank_with_the_devices_limit(page, results):
    rows = results.rows(PER_RANK)
    assert len(rows) > 10
    data = chart_data(page, "memory")
    assert data["allocated, peak"]["data"] == gibibytes(rows, "memory_allocated_bytes_max")
    assert data["reserved, peak"]["data"] == gibibytes(rows, "memory_reserved_bytes_max")
    assert data["allocated after forward"]["data"] == gibibytes(
        rows, "memory_allocated_bytes_forward")
    assert data["device's limit"]["data"] == [80] * len(rows)
    labels = chart_labels(page, "memory")
    assert labels[:3] == ["1 GPU, rank 0", "4xDDP, rank 0", "rank 1"]


def test_step_time_with_quartiles_beside_communication(page, results):
    rows = results.rows("select * from comparison where step_time_ms_median is not null")
    data = chart_data(page, "step_time")
    assert chart_labels(page, "step_time") == [row["point"] for row in rows]
    assert data["step time"]["data"] == [row["step_time_ms_median"] for row in rows]
    assert data["communication"]["data"] == [row["communication_time_ms_median"] for row in rows]
    assert data["quartiles"]["data"] == [
        [row["step_time_ms_p25"], row["step_time_ms_p75"]] for row in rows]


def test_figures_against_the_doubled_key_with_out_of_memory_marked(page, results):
    for chart, figure, scale in [("throughput", "tokens_per_second", 1),
                                 ("doubling_step_time", "step_time_ms_median", 1),
                                 ("doubling_memory", "memory_allocated_bytes_max", GIBIBYTE)]:
        data = chart_data(page, chart)
        for family, does_not_fit in [("plain", 4), ("checkpointed", 8)]:
            rows = results.rows(f"""select family_value, {figure} / {scale}.0 as figure
                from comparison where family = ? and status = 'finished' order by 1""", family)
            assert data[family]["data"] == points(rows, "family_value", "figure")
            mark = data[f"{family}: out of memory"]
            assert mark["data"] == [{"x": does_not_fit, "y": 0}]
            assert mark["pointStyle"] == "crossRot"
    assert page.locator("h3", has_text="Throughput against batch.size_per_rank").count() == 1


def test_losses(page, results):
    for chart, table in [("training_loss", "steps"), ("validation_loss", "evaluations")]:
        data = chart_data(page, chart)
        for run in results.rows("select run, point, steps from comparison where steps > 0"):
            rows = results.rows(f"""select step, loss from {table}
                where run = ? and rank = 0 order by step""", run["run"])
            drawn = data[run["point"]]["data"]
            if len(rows) <= 500:
                assert drawn == points(rows, "step", "loss")
            else:  # thinned
                everything = points(rows, "step", "loss")
                assert drawn[0] == everything[0] and drawn[-1] == everything[-1]
                assert 400 < len(drawn) <= 500
                assert all(point in everything for point in drawn)
    note = page.locator("figure", has_text="Training loss").locator("figcaption").text_content()
    assert "1 GPU: 500 of 1200 points are drawn." in note


def test_utilization_of_every_device(page, results):
    run = results.rows("select run, attempt, point from comparison where point = '4xDDP'")[0]
    data = chart_data(page, f"utilization_{run['run']}")
    assert list(data) == ["cpu", "gpu:0", "gpu:1"]
    for device in data:
        rows = results.rows(
            """select (d.time_unix_ms - a.started_unix_ms) / 1000.0 as x, utilization_percent
               from device_samples d join attempts a using (run, attempt)
               where run = ? and attempt = ? and device = ? order by d.time_unix_ms""",
            run["run"], run["attempt"], device)
        assert len(rows) == 20
        assert data[device]["data"] == points(rows, "x", "utilization_percent")


def test_gpu_hours_and_energy(page, results):
    table = page.locator("#costs table")
    rows = results.rows("""select * from comparison where total_time_ms is not null and run in
        (select run from ranks where device like 'cuda%') order by position""")
    shown = table.locator("tbody tr").evaluate_all(
        "(rows) => rows.map((row) => [...row.cells].map((cell) => cell.dataset.value))")
    assert [[float(cells[2]), float(cells[3])] for cells in shown] == [
        [row["ranks"] * row["total_time_ms"] / 3.6e6, row["energy_joules"] / 3600] for row in rows]


def test_each_chart_has_its_data_as_a_table(page):
    figures = page.locator("figure")
    assert figures.count() == page.evaluate("report.charts.length") > 10
    for figure in figures.all():
        canvas = figure.locator("canvas")
        title = figure.locator("h3").text_content()
        assert canvas.get_attribute("role") == "img"
        assert canvas.get_attribute("aria-label").startswith(title)
        details = figure.locator("details")
        assert details.locator("table").count() == 0
        details.locator("summary").press("Enter")
        expected = page.evaluate(
            """(id) => report.charts.find((chart) => `chart-${chart.id}` === id).rows.length""",
            figure.locator("h3").get_attribute("id"))
        assert expected > 0
        expect(details.locator("tbody tr")).to_have_count(expected)
