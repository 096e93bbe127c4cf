// The comparison table, which sorts by click or keyboard.

const MOST_ROWS_SHOWN = 1000;
const NEXT_ORDER = {none: "ascending", ascending: "descending", descending: "none"};

const compareTexts = new Intl.Collator("en", {numeric: true}).compare;

// Compares numbers by size, and texts as people sort them. Missing values are last in both orders.
function compareValues(a, b, order) {
  if (a === null || b === null) return (a === null) - (b === null);
  const difference = typeof a === "number" && typeof b === "number"
    ? a - b : compareTexts(String(a), String(b));
  return order === "descending" ? -difference : difference;
}

// Returns the class that determines if a column and its explanation are shown.
function classOfSight({shown_at_first: isShown = true, shown_if_narrow: isShownIfNarrow = true}) {
  return !isShown ? "on-request" : !isShownIfNarrow ? "if-wide" : "always";
}

function cellClass(column) {
  return `${column.right ? "number" : "text"} ${classOfSight(column)}`;
}

function headingCell(column) {
  return element("th", {scope: "col", "aria-sort": "none", class: cellClass(column)},
    element("button", {type: "button", title: column.documentation.replaceAll("`", "")}, column.heading));
}

function textOrBrief(text, brief = text) {
  return brief === text ? [text]
    : [element("span", {class: "in-full"}, text), element("span", {class: "in-brief"}, brief)];
}

// `cells` has [value, text, brief text] for each column, as in the other formats. `best` names the
// columns in which this row is best. `reason` says why a run ended so.
function bodyRow(columns, {cells, best = [], reason = ""}) {
  return element("tr", {}, ...cells.map(([value, text, brief], index) => {
    const column = columns[index];
    const isBest = best.includes(column.name);
    const attributes = {class: cellClass(column) + (isBest ? " best" : ""), "data-value": String(value ?? "")};
    if (column.name === "status") attributes.class += " status-" + value;
    return element(index === 0 ? "th" : "td",
      index === 0 ? {...attributes, scope: "row"} : attributes, ...textOrBrief(text, brief),
      ...(column.name === "status" && reason !== "" ? [element("span", {class: "reason"}, ...sentence(reason))] : []));
  }));
}

// A table body with the first `rows` in their order, or all of them after a click on `showAll`.
class TableBody {
  constructor(columns, rows) {
    this.columns = columns;
    this.made = new Map();
    this.body = element("tbody");
    this.showAll = element("button", {type: "button", class: "more"}, `Show all ${rows.length} rows`);
    this.showAll.hidden = rows.length <= MOST_ROWS_SHOWN;
    this.showAll.addEventListener("click", () => {
      this.showAll.hidden = true;
      this.show(this.rows);
    });
    this.show(rows);
  }

  show(rows) {
    this.rows = rows;
    const shown = this.showAll.hidden ? rows : rows.slice(0, MOST_ROWS_SHOWN);
    this.body.replaceChildren(...shown.map((row) => {
      if (!this.made.has(row)) this.made.set(row, bodyRow(this.columns, row));
      return this.made.get(row);
    }));
  }
}

// Returns the set-up that the rows share, and the answers about them. Answers to one question are
// below each other.
function answerList({set_up, answers}) {
  const isFirst = ({question}, index) => index === 0 || answers[index - 1].question !== question;
  return [...(set_up === "" ? [] : [element("p", {class: "set-up"}, ...sentence(set_up))]),
    ...(answers.length === 0 ? [] : [element("dl", {class: "answers"}, ...answers.flatMap(
      (answer, index) => [element("dt", {}, isFirst(answer, index) ? answer.question : ""),
        element("dd", {}, ...sentence(answer.text))]))])];
}

// `above` is shown between the title and the table.
function comparisonTable(columns, {title, rows, legend = []}, id, above = []) {
  const headings = columns.map(headingCell);
  const body = new TableBody(columns, rows);
  const announced = element("p", {class: "visually-hidden", role: "status"});

  headings.forEach((heading, index) => {
    heading.firstChild.addEventListener("click", () => {
      const order = NEXT_ORDER[heading.getAttribute("aria-sort")];
      for (const other of headings) other.setAttribute("aria-sort", "none");
      heading.setAttribute("aria-sort", order);
      body.show(order === "none" ? rows : [...rows].sort((a, b) =>
        compareValues(a.cells[index][0], b.cells[index][0], order)));
      const name = columns[index].heading.replaceAll("\n", " ");
      announced.textContent =
        order === "none" ? "In the report's own order" : `Sorted by ${name}, ${order}`;
    });
  });

  const table = element("table", {id, class: "comparison"},
    ...(id === "table" ? [element("caption", {}, "A heading sorts its table: ascending, " +
      "descending, and back to the report's own order.")] : []),
    element("thead", {}, element("tr", {}, ...headings)), body.body);
  return [...(title === "" ? [] : [element("h3", {class: "group"}, title)]), ...above,
    scrollBox(`Comparison of the runs ${title}`.trim(), table), body.showAll, announced,
    ...legend.map((line) => element("p", {class: "remark"}, ...sentence(line)))];
}

// Returns a switch that shows all columns of all tables, with their explanations.
function columnSwitch(columns) {
  if (columns.every((column) => column.shown_at_first)) return [];
  const box = element("input", {type: "checkbox"});
  box.addEventListener("change", () => {
    document.getElementById("comparison").classList.toggle("all-columns", box.checked);
  });
  return [element("label", {class: "switch"}, box, `All ${columns.length} columns`)];
}

function comparisonTables({columns, blocks}) {
  const shown = blocks.length > 0 ? blocks
    : [{title: "", set_up: "", answers: [], rows: []}];
  return shown.flatMap((block, index) =>
    comparisonTable(columns, block, index === 0 ? "table" : `table-${index + 1}`,
      [...answerList(block), ...(index === 0 ? columnSwitch(columns) : [])]));
}

function columnDocumentation(columns) {
  return folded("What the columns are", () => [element("dl", {}, ...columns.flatMap((column) => [
    element("dt", {class: classOfSight(column)}, column.heading.replaceAll("\n", " ")),
    element("dd", {class: classOfSight(column)}, ...sentence(column.documentation))]))]);
}
