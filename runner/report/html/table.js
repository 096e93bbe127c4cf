// The comparison, sorted by click or by keyboard.

const NEXT_ORDER = {none: "ascending", ascending: "descending", descending: "none"};

// Numbers by size, texts as people sort them; what was not measured comes last in either order.
function compareValues(a, b, order) {
  if (a === null || b === null) return (a === null) - (b === null);
  const difference = typeof a === "number" && typeof b === "number"
    ? a - b : String(a).localeCompare(String(b), "en", {numeric: true});
  return order === "descending" ? -difference : difference;
}

function headingCell(column) {
  return element("th", {scope: "col", "aria-sort": "none", class: column.right ? "number" : "text"},
    element("button", {type: "button", title: column.documentation}, column.heading));
}

// cells: [value, text] of each column, as in the other formats.
function bodyRow(columns, cells) {
  return element("tr", {}, ...cells.map(([value, text], index) => {
    const column = columns[index];
    const attributes = {class: column.right ? "number" : "text", "data-value": String(value ?? "")};
    if (column.name === "status") attributes.class += " status-" + value;
    return element(index === 0 ? "th" : "td",
      index === 0 ? {...attributes, scope: "row"} : attributes, text);
  }));
}

function comparisonTable(report) {
  const rows = report.rows.map((cells) => ({cells, row: bodyRow(report.columns, cells)}));
  const headings = report.columns.map(headingCell);
  const body = element("tbody", {}, ...rows.map(({row}) => row));
  const announced = element("p", {class: "visually-hidden", role: "status"});

  headings.forEach((heading, index) => {
    heading.firstChild.addEventListener("click", () => {
      const order = NEXT_ORDER[heading.getAttribute("aria-sort")];
      for (const other of headings) other.setAttribute("aria-sort", "none");
      heading.setAttribute("aria-sort", order);
      const sorted = order === "none" ? rows : [...rows].sort((a, b) =>
        compareValues(a.cells[index][0], b.cells[index][0], order));
      body.replaceChildren(...sorted.map(({row}) => row));
      const name = report.columns[index].heading.replaceAll("\n", " ");
      announced.textContent =
        order === "none" ? "In the report's own order" : `Sorted by ${name}, ${order}`;
    });
  });

  const table = element("table", {id: "table", class: "comparison"},
    element("caption", {}, "A heading sorts the table by its column: ascending, descending, and " +
      "back to the report's own order."),
    element("thead", {}, element("tr", {}, ...headings)), body);
  return [scrollBox("Comparison of the runs", table), announced];
}

function columnDocumentation(columns) {
  return folded("What the columns are", () => [element("dl", {}, ...columns.flatMap((column) => [
    element("dt", {}, column.heading.replaceAll("\n", " ")),
    element("dd", {}, column.documentation)]))]);
}
