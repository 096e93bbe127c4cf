"""The page of `fsdp-run plan --format html`."""

import json

import pytest
from results import GIBIBYTE, HOSTILE, run_program
from window import bars, curves, drawn_size, layout_problems, open_everything

EXPERIMENT = {
    "experiment": "trial",
    "base": {"device": "cuda", "memory_limit_gib": 2, "train.steps": 6, "precision": "bf16_true"},
    "points": [
        {"name": "1 GPU", "strategy": {"kind": "single"}},
        {"name": HOSTILE, "strategy": {"kind": "fsdp", "ranks": 4}},
        {"name": "no such model", "model.source": "nowhere"},
    ],
}


@pytest.fixture(scope="module")
def planned(runner, trainer, tmp_path_factory):
    """The page, and the plans on it."""
    folder = tmp_path_factory.mktemp("plan")
    (folder / "trial.yaml").write_text(json.dumps(EXPERIMENT))

    def plan(*words):
        return run_program(runner, folder, "plan", "trial.yaml", "--gpu", "a100-80", "--trainer", trainer,
                           *words)

    plan("--format", "html", "--output", "plan.html")
    return folder / "plan.html", [row for row in json.loads(plan("--format", "json")) if row["fits"] is not None]


@pytest.mark.parametrize("width", [320, 1280])
def test_it_shows_what_memory_is_for_and_how_it_goes_up_and_down(open_report, planned, width):
    file, plans = planned
    assert [plan["point"] for plan in plans] == ["1 GPU", HOSTILE]
    page = open_report(file, width=width)
    open_everything(page)
    assert page.evaluate("document.documentElement.scrollWidth") == width
    assert page.locator("tbody").first.locator("tr").count() == 3
    assert "No plan for no such model" in page.locator(".notes").text_content()

    assert layout_problems(page) == []

    composition, (pixel, _) = bars(page, "composition"), drawn_size(page, "composition")
    for index, plan in enumerate(plans):
        assert abs(composition["limit"][index][1] - plan["memory_limit_bytes"] / GIBIBYTE) <= pixel
        ends = [layer[index][1] for name, layer in composition.items() if name != "limit"]
        assert ends == sorted(ends)
        assert abs(ends[-1] - plan["memory_device_bytes_max"] / GIBIBYTE) <= pixel
        areas = curves(page, f"timeline_{index}").values()
        tops = [area["line"][:len(plan["timeline"])] for area in areas]
        assert all(len(top) == len(plan["timeline"]) for top in tops)
        _, pixel_up = drawn_size(page, f"timeline_{index}")
        assert abs(max(y for top in tops for _, y in top) - plan["memory_requested_bytes_max"] / GIBIBYTE) <= pixel_up


def test_times_that_nobody_calibrated_are_not_drawn(open_report, planned):
    page = open_report(planned[0])
    assert page.locator("figure", has_text="Time of a step").count() == 0
    assert "whatever the strategy" in page.locator(".notes").last.text_content()


def test_the_page_begins_with_what_is_planned(open_report, planned):
    page = open_report(planned[0])
    first = page.locator("#comparison p").first.text_content()
    assert first == "Llama 6.57M on 1 and 4 ranks, planned for a100-80, 79.25 GiB."
