"""A report in Chromium, without a network."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass
class Window:
    page: Any
    file: Path
    complaints: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)


def open_page(browser, file, width=1280, height=900, color_scheme="light"):
    context = browser.new_context(
        offline=True, viewport={"width": width, "height": height}, color_scheme=color_scheme)
    page = context.new_page()
    window = Window(page, file)
    page.on("console", lambda message: window.complaints.append(f"{message.type}: {message.text}"))
    page.on("pageerror", lambda error: window.complaints.append(str(error)))
    page.on("dialog", lambda dialog: window.complaints.append(f"dialog: {dialog.message}"))
    page.on("request", lambda request: window.requests.append(request.url))
    page.goto(file.as_uri())
    return window


def open_everything(page):
    """Unfolds every folded part and waits until each is filled."""
    page.evaluate("document.querySelectorAll('details').forEach((part) => { part.open = true; })")
    page.wait_for_function("[...document.querySelectorAll('details')].every("
                           "(part) => part.childElementCount > 1)")


def chart_data(page, chart_id):
    """What is drawn: the datasets, by their label."""
    datasets = page.evaluate(
        """(id) => report.charts.find((chart) => chart.id === id).chart.data.datasets.map(
             ({label, data, pointStyle}) => ({label, data, pointStyle}))""",
        chart_id)
    return {dataset["label"]: dataset for dataset in datasets}


def chart_labels(page, chart_id):
    return page.evaluate(
        "(id) => report.charts.find((chart) => chart.id === id).chart.data.labels", chart_id)
