// What the other scripts build the page with. Names and texts of a report become text nodes and
// attributes, never markup.

// element("td", {class: "number"}, "text", child, ...)
function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

// A box that a wide table scrolls in, reached by keyboard, since it scrolls by arrow keys. It says when it scrolls.
function scrollBox(label, table) {
  const hint = element("p", {class: "scrolls", hidden: ""}, "This table scrolls sideways →");
  const box = element("div", {class: "scroll", tabindex: "0", role: "region", "aria-label": label}, hint, table);
  const tell = () => { hint.hidden = box.scrollWidth <= box.clientWidth; };
  const observer = new ResizeObserver(() => requestAnimationFrame(tell));
  [box, table].forEach((part) => observer.observe(part));
  return box;
}

// Returns the parts of a sentence. `Words` between backticks become code.
function sentence(text) {
  return text.split(/(^|[\s("'])`([^`]+)`/)
    .map((part, index) => index % 3 === 2 ? element("code", {}, part) : part);
}

function list(className, lines) {
  return element("ul", {class: className}, ...lines.map((line) => element("li", {}, ...sentence(line))));
}

// A table of texts and numbers, one array a row; null is "-".
function plainTable(head, rows) {
  const cell = (value) =>
    typeof value === "number"
      ? element("td", {class: "number", "data-value": String(value)}, formatted(value))
      : element("td", {}, value ?? "-");
  return element("table", {},
    element("thead", {}, element("tr", {},
      ...head.map((heading) => element("th", {scope: "col"}, heading)))),
    element("tbody", {}, ...rows.map((row) => element("tr", {}, ...row.map(cell)))));
}

// Folded, and filled when it is opened for the first time.
function folded(summary, fill) {
  const details = element("details", {}, element("summary", {}, summary));
  details.addEventListener("toggle", () => {
    if (details.open && details.childElementCount === 1) details.append(...fill());
  });
  return details;
}

// Five significant digits, never fewer than the whole part; null is "-".
function formatted(value) {
  if (value === null) return "-";
  if (Number.isInteger(value) || Math.abs(value) >= 1e5) return value.toFixed(0);
  return String(Number(value.toPrecision(5)));
}

// Databases of others may hold a time that no calendar has.
const LAST_UNIX_MS = 253402300799999; // of the year 9999
const isTime = (unixMs) => unixMs >= 0 && unixMs <= LAST_UNIX_MS;

function utcTime(unixMs) {
  if (!isTime(unixMs)) return `${unixMs} ms after 1970`;
  return new Date(unixMs).toISOString().slice(0, 16).replace("T", " ") + " UTC";
}

// The object that a text of others holds as JSON; an empty one if it holds none.
function parsedObject(text) {
  try {
    const value = JSON.parse(text);
    return value !== null && typeof value === "object" && !Array.isArray(value) ? value : {};
  } catch {
    return {};
  }
}

// What `make` returns, or `instead` if it throws; then `tell` is given a sentence about it.
function madeOr(instead, what, make, tell) {
  try {
    return make();
  } catch (error) {
    tell(`${what} cannot be shown: ${error.message}`);
    return instead;
  }
}

function saveFile(name, type, text) {
  const address = URL.createObjectURL(new Blob([text], {type}));
  element("a", {href: address, download: name}).click();
  URL.revokeObjectURL(address);
}
