// Builds the page of a plan from its data.

// Returns a cell with its value for sorting: a number if the text is one.
function cellOf(text) {
  return [text === "-" ? null : text !== "" && isFinite(text) ? Number(text) : text, text];
}

function plannedMemoryFigure(runs) {
  return compositionFigure({
    bars: runs.map(({name, plan}) => ({name, peak: plan.peak, total: plan.memory_device_bytes_max,
      limit: plan.memory_limit_bytes})),
    rest: "allocator and context",
    note: "The memory that tensors ask for, by its use; on top of it, what the allocator rounds up and " +
      "keeps, and what CUDA and NCCL take.",
  });
}

// Draws only runs whose plan is calibrated. Estimates without a calibration ignore the strategy.
function stepTimeFigure(all) {
  const runs = all.filter((run) => run.plan.communication_exposed_ms !== null);
  if (runs.length === 0) return null;
  const times = runs.map((run) => run.plan.step_time_ms);
  const exposed = runs.map((run) => run.plan.communication_exposed_ms);
  const layers = [
    {label: "step", values: times, colour: colourOf("allocated"), thickness: 0.9},
    {label: "of it, waiting", values: exposed, colour: colourOf("communication"), thickness: 0.45},
  ];
  return {
    id: "step_time", title: "Time of a step", wide: true,
    note: "Part of the step in which compute waits for other ranks or the host.",
    head: ["run", "step ms", "of it, waiting ms"],
    rows: runs.map((run, index) => [run.name, times[index], exposed[index]]),
    draw: (width) => drawBars({unit: "ms", names: runs.map((run) => run.name), rowHeight: 22, layers}, width),
  };
}

function plannedTimelineFigure(run, number) {
  return timelineFigure({
    id: `timeline_${number}`, title: `Memory as the run begins: ${run.name}`, timeline: run.plan.timeline,
    note: number > 0 ? "" : "The memory that tensors ask for, in the order of their requests: the start, each " +
      "planned step, then evaluation and checkpoint if the run has them.",
  });
}

function showFigures(runs) {
  const drawn = [];
  if (runs.length === 0) return drawn;
  const section = document.getElementById("figures");
  section.hidden = false;
  const figures = [plannedMemoryFigure(runs), stepTimeFigure(runs),
    ...runs.filter((run) => run.plan.timeline.length > 0).map(plannedTimelineFigure)];
  section.append(element("div", {class: "figures"}, ...figures.filter((figure) => figure !== null)
    .map((figure) => showFigure(figure, drawn))));
  return drawn;
}

function showPage(report) {
  const rows = report.runs.map((run) => run.cells.map(cellOf));
  const shown = report.columns.map((column, index) => ({...column, index}))
    .filter(({index}) => rows.some((cells) => cells[index][0] !== null));
  document.getElementById("comparison").append(
    ...report.heading.map((line) => element("p", {}, ...sentence(line))),
    ...comparisonTable(shown, {title: "", rows: rows.map((cells) =>
      ({cells: shown.map(({index}) => cells[index])}))}, "table"),
    ...[report.remarks, report.notes].filter((lines) => lines.length > 0).map((lines) => list("notes", lines)),
    columnDocumentation(shown));
  const figures = showFigures(report.runs.filter((run) => run.plan));
  keepDrawn(figures);
  return {data: report, figures};
}

window.report = showPage(JSON.parse(document.getElementById("data").textContent));
