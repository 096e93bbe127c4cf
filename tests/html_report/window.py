"""Opens a report in Chromium, without a network."""

import os
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass
class Window:
    page: Any
    file: Path
    complaints: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)


def launch(playwright):
    # CI runs as root, which may not use Chromium's sandbox. The pages are our own.
    return playwright.chromium.launch(executable_path=shutil.which("chromium"),
                                      args=["--no-sandbox"] if os.geteuid() == 0 else [])


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


def wait_until(page, condition):
    """Checks the condition at each frame. Playwright's own waiting evaluates text, which the page
    forbids."""
    assert page.evaluate("""async () => {
      for (let frame = 0; frame < 600; ++frame) {
        if (CONDITION) return true;
        await new Promise(requestAnimationFrame);
      }
      return false;
    }""".replace("CONDITION", condition)), condition


def open_everything(page):
    """Unfolds every folded part and waits until each is filled."""
    page.evaluate("document.querySelectorAll('details').forEach((part) => { part.open = true; })")
    wait_until(page, "[...document.querySelectorAll('details')].every((part) => part.childElementCount > 1)")


def texts(page, choice, arguments=None):
    """Returns what `choice`, the text of a function (element, text, arguments), returns for each text of the
    page, except null."""
    return page.evaluate("""(arguments) => {
      const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
      const found = [];
      while (walker.nextNode()) {
        const text = walker.currentNode.data.trim();
        if (text) found.push((CHOICE)(walker.currentNode.parentElement, text, arguments));
      }
      return found.filter((each) => each !== null);
    }""".replace("CHOICE", choice), arguments)


# Reads the values of a figure off its drawing, by the labels of its axes.
READ = """(id) => {
  const {box} = report.figures.find((figure) => figure.id === id);
  const numbers = (text) => text.match(/-?[\\d.]+(e-?\\d+)?/g).map(Number);
  const place = (mark) => numbers(mark.getAttribute("transform"));
  const reader = (axis, coordinate, isLogarithmic) => {
    const known = [...box.querySelectorAll(`.axis.${axis} .tick`)]
      .map((tick) => [place(tick)[coordinate], Number(tick.textContent)]);
    const [[from, low], [to, high]] = [known[0], known.at(-1)];
    return (at) => {
      const part = (at - from) / (to - from);
      return isLogarithmic ? low * (high / low) ** part : low + part * (high - low);
    };
  };
  return {box, numbers, place, reader};
}"""


def bars(page, figure):
    """Returns layer label -> the [begin, end] of each row's bar, or None without a bar."""
    return page.evaluate("""(id) => {
      const {box, numbers, place, reader} = READ(id);
      const x = reader("x", 0);
      const span = (bar) => {
        if (bar.tagName === "rect") {
          const [from, wide] = ["x", "width"].map((name) => Number(bar.getAttribute(name)));
          return [x(from), x(from + wide)];
        }
        const at = bar.hasAttribute("transform") ? place(bar)[0] : numbers(bar.getAttribute("d"))[0];
        return [x(at), x(at)];
      };
      const rows = [...box.querySelectorAll(".row")];
      const names = new Set([...box.querySelectorAll(".bar")].map((bar) => bar.dataset.layer));
      return Object.fromEntries([...names].map((name) => [name, rows.map((row) => {
        const bar = row.querySelector(`[data-layer="${name}"]`);
        return bar && span(bar);
      })]));
    }""".replace("READ", f"({READ})"), figure)


def row_labels(page, figure):
    return page.evaluate("""(id) => [...report.figures.find((figure) => figure.id === id).box
        .querySelectorAll(".row")].map((row) => row.dataset.label)""", figure)


def curves(page, figure, logarithmic_x=False):
    """Returns series label -> the points [x, y] of its line and of its marks."""
    return page.evaluate("""([id, isLogarithmic]) => {
      const {box, numbers, place, reader} = READ(id);
      const x = reader("x", 0, isLogarithmic), y = reader("y", 1, false);
      const pairs = (path) => path.getAttribute("d").split(/[ML]/).filter(Boolean).map(numbers)
        .map(([left, top]) => [x(left), y(top)]);
      return Object.fromEntries([...box.querySelectorAll(".series")].map((series) => {
        const line = series.querySelector(":scope > path:not(.mark)");
        const marks = [...series.querySelectorAll(".mark")].map(place);
        return [series.dataset.label, {line: line === null ? [] : pairs(line),
          marks: marks.map(([left, top]) => [x(left), y(top)])}];
      }));
    }""".replace("READ", f"({READ})"), [figure, logarithmic_x])


def drawn_size(page, figure):
    """Returns the size of one pixel of the figure, in values of its axes."""
    return page.evaluate("""(id) => {
      const {box, reader} = READ(id);
      const x = reader("x", 0), y = box.querySelector(".axis.y") ? reader("y", 1) : () => 0;
      return [x(1) - x(0), y(0) - y(1)];
    }""".replace("READ", f"({READ})"), figure)


# Finds errors of a page's layout. Texts must not leave their drawing, overlap or be too small to
# read. Drawings must not be cut, and the page must not scroll sideways.
LAYOUT = """(smallest) => {
  const problems = [];
  const width = document.documentElement.clientWidth;
  if (document.documentElement.scrollWidth > width) problems.push("the page scrolls sideways");
  for (const svg of document.querySelectorAll(".drawing svg")) {
    const id = svg.closest("figure").getAttribute("aria-labelledby");
    const frame = svg.getBoundingClientRect();
    const parent = svg.parentElement.getBoundingClientRect();
    if (frame.right > parent.right + 1 || frame.right > width) problems.push(`${id} is cut`);
    const texts = [...svg.querySelectorAll("text")].map((text) => [text, text.getBoundingClientRect()]);
    const scale = frame.width / svg.viewBox.baseVal.width;
    texts.forEach(([text, box], index) => {
      const name = `${id}: '${text.textContent}'`;
      if (parseFloat(getComputedStyle(text).fontSize) * scale < smallest) problems.push(`${name} is too small`);
      if (box.left < frame.left - 1 || box.right > frame.right + 1 || box.top < frame.top - 1 ||
          box.bottom > frame.bottom + 1) problems.push(`${name} leaves the drawing`);
      for (const [other, its] of texts.slice(index + 1)) {
        const wide = Math.min(box.right, its.right) - Math.max(box.left, its.left);
        const high = Math.min(box.bottom, its.bottom) - Math.max(box.top, its.top);
        if (wide > 1 && high > 3) problems.push(`${name} and '${other.textContent}' lie on each other`);
      }
    });
  }
  return problems;
}"""
READABLE = 12  # CSS's pixels: 9 pt


def layout_problems(page):
    return page.evaluate(LAYOUT, READABLE)
