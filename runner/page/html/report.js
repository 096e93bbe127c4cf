// Builds the page of a report from its data.

// To add a figure: write a function in runner/page/html/speed_figures.js or a file like it, and add
// its line to `allFigures` below. Figures of plans are in runner/page/html/plan.js.

// Databases from elsewhere may contain implausible values. Drawings leave these out.
const LARGEST_FIGURE = 1e39;
const isPlausible = (value, least) =>
  typeof value !== "number" || (value >= least && value <= LARGEST_FIGURE);

function plausibleFigures(figures) {
  return Object.fromEntries(Object.entries(figures).map(([name, value]) =>
    [name, isPlausible(value, name.includes("loss") ? -LARGEST_FIGURE : 0) ? value : null]));
}

function plausibleCurve(curve) {
  return {...curve, y: curve.y.map((y) => isPlausible(y, -LARGEST_FIGURE) ? y : null)};
}

// Returns the runs with names and plausible figures. `recorded` has the figures of the database.
function namedRuns(report) {
  const experiments = new Set(report.runs.map(({figures}) => figures.experiment));
  return report.runs.map((run) => ({
    ...run,
    recorded: run.figures,
    figures: plausibleFigures(run.figures),
    ranks: run.ranks.map(plausibleFigures),
    memory_peak: run.memory_peak && plausibleFigures(run.memory_peak),
    training_loss: plausibleCurve(run.training_loss),
    validation_loss: plausibleCurve(run.validation_loss),
    utilization: run.utilization.map(plausibleCurve),
    results: report.results,
    name: experiments.size > 1 ? `${run.figures.experiment}: ${run.name}` : run.name,
  }));
}

// "5 runs, started from 2026-03-01 12:00 UTC to ... on node1 (NVIDIA A100)."
function measuredText(report, runs) {
  const starts = runs.flatMap((run) => run.attempts.map((attempt) => attempt.started_unix_ms))
    .filter(isTime);
  const hosts = new Set(runs.flatMap((run) => run.rank_facts.map((fact) => fact.host)));
  const devices = new Set(runs.flatMap((run) => run.rank_facts.map((fact) => fact.device_name)));
  const counted = report.runs_total === 1 ? "1 run" : `${report.runs_total} runs`;
  if (report.runs_total === 0) return "";
  if (starts.length === 0 && runs.some((run) => run.attempts.length > 0)) return counted + ".";
  const ofFirst = runs.length < report.runs_total ? `; of the first ${runs.length}: ` : "";
  if (starts.length === 0) return `${counted}${ofFirst || "; "}nothing was measured yet.`;
  const first = utcTime(Math.min(...starts));
  const last = utcTime(Math.max(...starts));
  return `${counted}${ofFirst || ", "}started ` + (first === last ? first : `from ${first} to ${last}`) +
    (hosts.size > 0 ? ` on ${[...hosts].join(", ")}` : "") +
    (devices.size > 0 ? ` (${[...devices].join(", ")})` : "") + ".";
}

// Shows the author, the question if the title is another, and the paragraphs of the author's notes.
function showHead({question, author, notes}) {
  document.getElementById("measured").before(...[question, author].filter((text) => text !== "")
    .map((text) => element("p", {class: "byline"}, text)));
  const paragraphs = notes.split(/\n\s*\n/).map((text) => text.trim()).filter((text) => text !== "");
  if (paragraphs.length === 0) return;
  document.querySelector("main").prepend(
    element("section", {class: "reader"}, ...paragraphs.map((text) => element("p", {}, text))));
}

function allFigures(report, runs) {
  const scaling = report.scaling.map(plausibleFigures)
    .filter(({ranks, tokens_per_second: tokens}) => ranks > 0 && tokens !== null);
  return [
    ["Throughput against memory", () => [throughputMemoryFigure(runs)]],
    ["Memory of each rank", () => [memoryFigure(runs)]],
    ["Memory by its use", () => [memoryUsesFigure(runs)]],
    ["Step time", () => [stepTimeFigure(runs)]],
    ["Where the time goes", () => [timePartsFigure(runs)]],
    ["Training loss", () => lossFigures(runs, "training_loss", "Training loss")],
    ["Difference of losses", () => lossDifferenceFigures(report.loss_differences)],
    ["Validation loss", () => lossFigures(runs, "validation_loss", "Validation loss")],
    ["Doubled keys", () => doublingFigures(runs)],
    ["Throughput against ranks", () => [scalingFigure({scaling})]],
    ["Utilization", () => utilizationFigures(runs)],
    ["Memory over a step", () => stepMemoryFigures(runs)],
    ["Traced steps", () => streamFigures(runs)],
  ].flatMap(([what, make]) => madeOr([], what, make, sayBelowTable)).filter((figure) => figure !== null);
}

function showFigures(report, runs) {
  const drawn = [];
  const figures = allFigures(report, runs);
  if (figures.length === 0) return drawn;
  const section = document.getElementById("figures");
  section.hidden = false;
  section.append(element("div", {class: "figures"},
    ...figures.map((figure) => showFigure(figure, drawn))));
  return drawn;
}

// Returns the rows of runs on GPUs.
function costRows(runs) {
  return runs.flatMap((run) => {
    const gpus = run.rank_facts.filter((fact) => fact.device.startsWith("cuda")).length;
    const {gpu_time_ms: time, energy_joules: energy} = run.figures;
    if (time === null) return [];
    return [[run.name, gpus, time / 3.6e6, energy === null ? null : energy / 3600,
      run.figures.gpu_utilization_percent_mean ?? null]];
  });
}

function showCosts(runs) {
  const rows = costRows(runs);
  if (rows.length === 0) return;
  const section = document.getElementById("costs");
  section.hidden = false;
  section.append(element("p", {class: "remark"}, "GPU-hours: GPUs held x time, over all attempts. Energy: power " +
    "samples of the run's own GPUs, summed over time."),
  scrollBox("GPU-hours and energy", plainTable(
    ["run", "GPUs", "GPU-hours", "energy Wh", "GPU utilization, mean %"], rows)));
}

function notesOf(report) {
  const {runs, runs_total, notes} = report;
  return runs.length === runs_total ? notes : [...notes, "Figures, energy and details below are of " +
    `the first ${runs.length} of the ${runs_total} runs, in the order of the report.`];
}

function sayBelowTable(remark) {
  document.getElementById("comparison").append(element("p", {class: "remark"}, remark));
}

function showTable(report) {
  const notes = notesOf(report);
  document.getElementById("comparison").append(...comparisonTables(report),
    ...(report.warnings.length > 0 ? [element("h3", {class: "group"}, "Warnings"),
      list("warnings", report.warnings)] : []),
    ...(notes.length > 0 ? [list("notes", notes)] : []),
    columnDocumentation(report.columns));
}

function showRuns(report, runs) {
  if (runs.length === 0) return;
  const section = document.getElementById("runs");
  section.hidden = false;
  section.append(...runs.map(runDetails), ...experimentTexts(report.experiment_texts));
}

// Shows the table first. If a part cannot be made from the database, the other parts still appear.
function showPage(report) {
  showHead(report.head);
  showTable(report);
  const part = (instead, what, make) => madeOr(instead, what, make, sayBelowTable);
  const runs = part([], "The runs", () => namedRuns(report));
  part(null, "The times of the runs", () => {
    document.getElementById("measured").textContent = measuredText(report, runs);
  });
  const figures = part([], "The figures", () => showFigures(report, runs));
  keepDrawn(figures);
  part(null, "How to run it again", () => showReproduction(report, runs));
  part(null, "GPU-hours and energy", () => showCosts(runs));
  part(null, "Each run", () => showRuns(report, runs));
  return {data: report, figures};
}

window.report = showPage(JSON.parse(document.getElementById("data").textContent));
