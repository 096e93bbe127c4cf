// Builds parts of the page for the other scripts. Names and texts of a report become text nodes and
// attributes, never markup.

// element("td", {class: "number"}, "text", child, ...)
function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

// Returns a box in which a wide table scrolls. It can be focused, so arrow keys scroll it. A hint
// is shown if it scrolls.
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

// Returns a table of texts and numbers, one array per row. null is "-".
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

// Returns a folded part, which is filled when it is first opened.
function folded(summary, fill) {
  const details = element("details", {}, element("summary", {}, summary));
  details.addEventListener("toggle", () => {
    if (details.open && details.childElementCount === 1) details.append(...fill());
  });
  return details;
}

// Formats with five significant digits, but never cuts the whole part. null is "-".
function formatted(value) {
  if (value === null) return "-";
  if (Number.isInteger(value) || Math.abs(value) >= 1e5) return value.toFixed(0);
  return String(Number(value.toPrecision(5)));
}

// Databases from elsewhere may contain a time outside every calendar.
const LAST_UNIX_MS = 253402300799999; // of the year 9999
const isTime = (unixMs) => unixMs >= 0 && unixMs <= LAST_UNIX_MS;

function utcTime(unixMs) {
  if (!isTime(unixMs)) return `${unixMs} ms after 1970`;
  return new Date(unixMs).toISOString().slice(0, 16).replace("T", " ") + " UTC";
}

// Returns the object in a JSON text from elsewhere. Empty if the text is no object.
function parsedObject(text) {
  try {
    const value = JSON.parse(text);
    return value !== null && typeof value === "object" && !Array.isArray(value) ? value : {};
  } catch {
    return {};
  }
}

// Returns the result of `make`. If it throws, calls `tell` with a sentence and returns `instead`.
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
