"""Takes pictures of pages as people see them, for comparison with those in pictures/:

python tests/html_report/take_pictures.py FOLDER PAGE.html...

writes into the folder, for each page, PAGE-WIDTH-light.png and -dark.png at every width, and
PAGE-print.pdf for A4."""

import sys
from pathlib import Path

from playwright.sync_api import sync_playwright
from window import launch, open_page

WIDTHS = (1440, 1280, 800, 390, 320)
MARGINS = dict.fromkeys(("top", "bottom", "left", "right"), "1cm")


def take_pictures(browser, file, folder):
    for scheme in ("light", "dark"):
        for width in WIDTHS:
            page = open_page(browser, file, width=width, color_scheme=scheme).page
            page.screenshot(path=folder / f"{file.stem}-{width}-{scheme}.png", full_page=True)
            page.context.close()
    page = open_page(browser, file).page
    page.pdf(path=folder / f"{file.stem}-print.pdf", format="A4", margin=MARGINS)
    page.context.close()


def main():
    folder, *files = map(Path, sys.argv[1:])
    folder.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        browser = launch(playwright)
        for file in files:
            take_pictures(browser, file.resolve(), folder)
        browser.close()


if __name__ == "__main__":
    main()
