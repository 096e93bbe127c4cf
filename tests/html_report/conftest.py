import os
import shutil
from pathlib import Path

import pytest
from playwright.sync_api import sync_playwright
from results import make_results
from window import open_page


def pytest_addoption(parser):
    parser.addoption("--runner", type=Path, required=True, help="the fsdp-run program to test")
    parser.addoption("--trainer", type=Path, required=True, help="fsdp-train, which plans")
    parser.addoption("--stub-trainer", required=True, help="tests/fakes/stub_trainer, built")


@pytest.fixture(scope="session")
def results(request, tmp_path_factory):
    programs = [Path(request.config.getoption(name)).resolve()
                for name in ("--runner", "--stub-trainer")]
    return make_results(tmp_path_factory.mktemp("results"), *programs)


@pytest.fixture(scope="session")
def browser():
    with sync_playwright() as playwright:
        # CI runs as root, which may not use Chromium's sandbox. The page is our own.
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"),
            args=["--no-sandbox"] if os.geteuid() == 0 else [])
        yield browser
        browser.close()


@pytest.fixture
def open_report(browser, results):
    """Opens the report in its own window. The test fails if the page logs a message, shows a
    dialog or makes a request."""
    opened = []

    def open_it(file=results.page, **window):
        opened.append(open_page(browser, file, **window))
        return opened[-1].page

    yield open_it
    for window in opened:
        window.page.context.close()
        assert window.complaints == []
        assert window.requests == [window.file.as_uri()]


@pytest.fixture
def page(open_report):
    return open_report()
