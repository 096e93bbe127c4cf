// Builds the page of a plan from its data.

const GIBIBYTE = 2 ** 30;

// What bars and areas are stacked of, from below: a name, and the uses of memory that it sums.
const STACKED = [
  ["parameters", ["parameters"]],
  ["gathered units", ["whole"]],
  ["gradients", ["gradients"]],
  ["optimizer state", ["optimizer_state"]],
  ["activations", ["attention", "mlp", "hidden"]],
  ["head", ["head"]],
  ["gradients of activations", ["activation_gradients"]],
  ["batch and other", ["batch", "other"]],
];

function gibibytesOf(moment, uses) {
  return uses.reduce((sum, use) => sum + moment[`${use}_bytes`], 0) / GIBIBYTE;
}

// Those of which any of the moments has some, with the colour of each.
function layersOf(moments) {
  return STACKED.map(([label, uses], style) => ({
    label, style, data: moments.map((moment) => gibibytesOf(moment, uses)),
  })).filter(({data}) => data.some((value) => value > 0));
}

// A cell is sorted as the number that it is.
function cellOf(text) {
  const digits = text.replace("~", "");
  return [text === "-" ? null : digits !== "" && isFinite(digits) ? Number(digits) : text, text];
}

function compositionChart(runs) {
  const plans = runs.map((run) => run.plan);
  const layers = layersOf(plans.map((plan) => plan.peak));
  const rest = plans.map((plan) =>
    (plan.memory_device_bytes_max - plan.memory_requested_bytes_max) / GIBIBYTE);
  const limits = plans.map((plan) =>
    plan.memory_limit_bytes === null ? null : plan.memory_limit_bytes / GIBIBYTE);
  const most = Math.max(...plans.map((plan) => plan.memory_device_bytes_max)) / GIBIBYTE;
  const isNear = (limit) => limit !== null && limit <= 4 * most;
  const far = limits.filter((limit) => limit !== null && !isNear(limit));
  return {
    id: "composition", title: "Memory of the rank with most, at its peak", wide: true,
    height: barHeight(runs.length, 30),
    note: "What tensors ask for, by what it is for; above it what the allocator rounds up and " +
      "keeps, and what CUDA and NCCL take." +
      (far.length > 0 ? ` A limit of ${formatted(Math.min(...far))} GiB is far beyond the axis.`
        : ""),
    head: ["run", ...layers.map(({label}) => `${label} GiB`), "allocator and context GiB",
      "limit GiB"],
    rows: runs.map((run, index) =>
      [run.name, ...layers.map(({data}) => data[index]), rest[index], limits[index]]),
    config: (theme) => {
      const config = barConfig(theme, runs.map((run) => run.name), [
        ...layers.map(({label, style, data}) => ({
          label, data, stack: "memory", order: 2, backgroundColor: theme.series[style],
          borderColor: theme.colour("background"), borderWidth: 1, pointStyle: "rect",
        })),
        {
          label: "allocator and context", data: rest, stack: "memory", order: 2,
          backgroundColor: theme.colour("reserved"), pointStyle: "rect",
        },
        ...(limits.some(isNear) ? [{
          label: "limit", type: "line", showLine: false, order: 1, pointStyle: "line",
          rotation: 90, pointRadius: 12, borderWidth: 3, clip: 12,
          data: limits.map((limit) => isNear(limit) ? limit : null),
          borderColor: theme.colour("limit"), stack: "limit",
        }] : []),
      ], "GiB");
      config.options.scales.x.stacked = true;
      config.options.scales.y.stacked = true;
      return config;
    },
  };
}

function stepTimeChart(all) {
  const runs = all.filter((run) => run.plan.step_time_ms !== null);
  if (runs.length === 0) return null;
  const times = runs.map((run) => run.plan.step_time_ms);
  const exposed = runs.map((run) => run.plan.communication_exposed_ms);
  const isCalibrated = exposed.some((time) => time !== null);
  return {
    id: "step_time", title: "Time of a step", height: barHeight(runs.length, 34), wide: true,
    note: isCalibrated
      ? "Of it, the time in which compute waits for other ranks or the host."
      : "Not calibrated: as busy as others measured GPUs to be.",
    head: ["run", "step ms", "of it, waiting ms"],
    rows: runs.map((run, index) => [run.name, times[index], exposed[index]]),
    config: (theme) => barConfig(theme, runs.map((run) => run.name), [
      {
        label: "step", data: times, grouped: false, order: 2, pointStyle: "rect",
        backgroundColor: theme.colour("allocated"), barPercentage: 0.9,
      },
      ...(isCalibrated ? [{
        label: "of it, waiting", data: exposed, grouped: false, order: 1, pointStyle: "rect",
        backgroundColor: theme.colour("communication"), barPercentage: 0.45,
      }] : []),
    ], "ms"),
  };
}

// Where another phase begins, by how many allocations came before; phases too short for their name
// are left out.
function phaseStarts(timeline) {
  const starts = timeline
    .filter(({phase}, index) => index === 0 || phase !== timeline[index - 1].phase)
    .map(({allocation, phase}) => ({value: allocation, phase}));
  const end = timeline.at(-1).allocation;
  return starts.filter(({value}, index) => (starts[index + 1]?.value ?? end) - value > end / 14);
}

function momentText({phase, unit}) {
  return unit === null ? phase : `${phase}, unit ${unit}`;
}

function timelineChart(run, number) {
  const {timeline} = run.plan;
  const layers = layersOf(timeline);
  const starts = phaseStarts(timeline);
  return {
    id: `timeline_${number}`, title: run.name, height: 260, wide: true,
    note: "",
    head: ["allocations before", "moment", ...layers.map(({label}) => `${label} GiB`)],
    rows: timeline.map((moment, index) =>
      [moment.allocation, momentText(moment), ...layers.map(({data}) => data[index])]),
    config: (theme) => chartConfig(theme, "line", {
      datasets: layers.map(({label, style, data}) => ({
        label, fill: "stack", pointRadius: 0, pointStyle: "rect", borderWidth: 1,
        data: data.map((y, index) => ({x: timeline[index].allocation, y})),
        borderColor: theme.series[style], backgroundColor: theme.series[style],
      })),
    }, {
      x: axis(theme, "", {
        type: "linear", min: timeline[0].allocation, max: timeline.at(-1).allocation,
        afterBuildTicks: (scale) => { scale.ticks = starts.map(({value}) => ({value})); },
        ticks: {callback: (value) => starts.find((start) => start.value === value)?.phase ?? ""},
      }),
      y: axis(theme, "GiB", {stacked: true, beginAtZero: true}),
    }, {
      interaction: {mode: "nearest", axis: "x", intersect: false},
      tooltip: {title: ([item]) => item ? momentText(timeline[item.dataIndex]) : ""},
    }),
  };
}

function showCharts(runs) {
  const drawn = [];
  if (runs.length === 0) return drawn;
  const section = document.getElementById("charts");
  section.hidden = false;
  const main = [compositionChart(runs), stepTimeChart(runs)].filter((chart) => chart !== null);
  section.append(element("div", {class: "charts"},
    ...main.map((chart) => showChart(chart, drawn))));
  const timed = runs.filter((run) => run.plan.timeline.length > 0);
  if (timed.length > 0) {
    section.append(element("h3", {class: "group"}, "Memory from the start to the last phase"),
      element("p", {class: "remark"}, "What tensors ask for, in the order in which the rank asks: " +
        "the start, two steps, and evaluation and checkpoint where the run has them."),
      element("div", {class: "charts"},
        ...timed.map((run, number) => showChart(timelineChart(run, number), drawn))));
  }
  return drawn;
}

function showPage(report) {
  const rows = report.runs.map((run) => run.cells.map(cellOf));
  const shown = report.columns.map((column, index) => ({...column, index}))
    .filter(({index}) => rows.some((cells) => cells[index][0] !== null));
  const list = (lines) => lines.length === 0 ? [] :
    [element("ul", {class: "notes"}, ...lines.map((line) => element("li", {}, line)))];
  document.getElementById("comparison").append(
    ...comparisonTable(shown, {title: "", rows: rows.map((cells) =>
      shown.map(({index}) => cells[index]))}, "table"),
    ...list(report.remarks), ...list(report.notes), columnDocumentation(shown));
  const charts = showCharts(report.runs.filter((run) => run.plan));
  keepDrawn(charts);
  return {data: report, charts};
}

window.report = showPage(JSON.parse(document.getElementById("data").textContent));
