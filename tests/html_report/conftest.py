import pytest
from playwright.sync_api import sync_playwright
from results import make_results
from window import launch, open_page


@pytest.fixture(scope="session")
def results(runner, stub_trainer, tmp_path_factory):
    return make_results(tmp_path_factory.mktemp("results"), runner, stub_trainer)


@pytest.fixture(scope="session")
def browser():
    with sync_playwright() as playwright:
        browser = launch(playwright)
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
