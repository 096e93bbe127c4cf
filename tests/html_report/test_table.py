import math

import pytest
from results import HOSTILE
from window import open_everything

ROWS = "[...document.querySelectorAll('#table tbody tr')].map((row) => [...row.cells].map(CELL))"
VALUES = ROWS.replace("CELL", "(cell) => cell.dataset.value")
POINTS = "[...document.querySelectorAll('#table tbody tr')].map((row) => row.cells[0].textContent)"


def columns(page):
    return page.evaluate("report.data.columns.map((column) => column.name)")


def heading(page, name):
    return page.locator("#table thead th").nth(columns(page).index(name))


def test_every_cell_is_sqlites_value(page, results):
    rows = results.rows("select * from comparison")
    shown = page.evaluate(VALUES)
    assert len(shown) == len(rows) == 11
    compared = set()
    for cells, row in zip(shown, rows):
        for name, value in zip(columns(page), cells, strict=True):
            if name not in row:
                continue
            compared.add(name)
            expected = row[name]
            if expected is None or isinstance(expected, str):
                assert value == (expected or ""), name
            else:
                assert float(value) == expected, name
    assert compared >= {"point", "memory_allocated_bytes_max",
                        "memory_reserved_bytes_max", "step_time_ms_median", "tokens_per_second",
                        "total_time_ms", "loss_last", "validation_loss_last", "status"}


def test_ratios_are_sqlites_values_divided(page, results):
    rows = results.rows("select * from comparison")
    ratio = columns(page).index("tokens_per_second_ratio")
    for cells, row in zip(page.evaluate(VALUES), rows, strict=True):
        if row["status"] != "finished":
            assert cells[ratio] == ""
        elif row["tokens_per_second"] is not None:
            expected = row["tokens_per_second"] / rows[0]["tokens_per_second"]
            assert math.isclose(float(cells[ratio]), expected, rel_tol=1e-12)


def test_numbers_stand_at_the_right_and_each_heading_says_what_it_is(page):
    assert page.evaluate("""report.data.columns.every(({right}, index) =>
        [...document.querySelectorAll('#table tr')].every((row) =>
          getComputedStyle(row.cells[index]).textAlign === (right ? 'right' : 'left')))""")
    assert page.evaluate("""[...document.querySelectorAll('#table thead button')].every(
        (button) => button.title.length >= 10)""")


@pytest.mark.parametrize("press", ["click", "Enter", "Space"])
def test_a_heading_sorts_up_down_and_back(page, results, press):
    own_order = page.evaluate(POINTS)
    button = heading(page, "tokens_per_second").locator("button")
    seen = []
    for _ in range(3):
        if press == "click":
            button.click()
        else:
            button.focus()
            page.keyboard.press(press)
        order = heading(page, "tokens_per_second").get_attribute("aria-sort")
        seen.append(order)
        sql = {"ascending": "tokens_per_second", "descending": "tokens_per_second desc",
               "none": "position"}[order]
        expected = results.rows(f"""select point from comparison
            order by {'' if order == 'none' else 'tokens_per_second is null,'} {sql}, position""")
        assert page.evaluate(POINTS) == [row["point"] for row in expected]
    assert seen == ["ascending", "descending", "none"]
    assert page.evaluate(POINTS) == own_order


def test_few_columns_are_shown_and_all_on_request(page):
    def shown():
        return [name for name, heading in zip(columns(page), page.locator("#table thead th").all(), strict=True)
                if heading.is_visible()]
    few = shown()
    assert 5 <= len(few) <= 8
    assert {"point", "memory_allocated_bytes_max", "tokens_per_second", "loss_last", "status"} <= set(few)
    box = page.get_by_label(f"All {len(columns(page))} columns")
    box.check()
    assert shown() == columns(page)
    box.uncheck()
    assert shown() == few


def test_only_the_column_sorted_by_says_so(page):
    heading(page, "status").locator("button").click()
    heading(page, "point").locator("button").click()
    sorts = page.locator("#table thead th").evaluate_all(
        "(all) => all.map((heading) => heading.getAttribute('aria-sort'))")
    assert sorts == ["ascending"] + ["none"] * (len(sorts) - 1)
    assert "point, ascending" in page.locator("[role=status]").text_content()


def test_texts_sort_as_people_do(page):
    heading(page, "point").locator("button").click()
    points = page.evaluate(POINTS)
    batches = [point for point in points if point.startswith("checkpointed")]
    assert batches == [f"checkpointed size_per_rank={batch}" for batch in (1, 2, 4, 6, 8)]


def test_hostile_names_stay_text(page):
    open_everything(page)
    assert page.title() == HOSTILE
    assert page.locator("h1").text_content() == HOSTILE
    assert HOSTILE in page.evaluate(POINTS)
    assert page.locator(".run summary", has_text=HOSTILE).count() == 1
    assert page.locator("img").count() == 0
    assert page.locator("script").count() == 3


def test_of_very_many_runs_the_first_are_shown_and_all_on_request(open_report, results):
    page = open_report(results.large_page)
    rows = page.locator("#table tbody tr")
    assert rows.count() == 1000
    notes = page.locator(".notes").text_content()
    assert "of the first 32 of the 1111 runs" in notes
    assert page.locator("#measured").text_content().startswith("1111 runs; of the first 32: started ")
    assert page.locator(".run", has_text=")").count() == 32
    for _ in range(2):
        heading(page, "point").locator("button").click()
    assert page.evaluate(POINTS)[:2] == ["plain size_per_rank=4", "plain size_per_rank=2"]
    page.get_by_role("button", name="Show all 1111 rows").press("Enter")
    assert rows.count() == 1111
    assert page.evaluate(POINTS)[-1] == HOSTILE
    heading(page, "point").locator("button").click()
    assert page.evaluate(POINTS)[-1] == "another 1100"
