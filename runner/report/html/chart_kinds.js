// The charts of a report, in the form that charts.js draws.

const GIBIBYTE = 2 ** 30;
const MOST_RANKS_DRAWN = 8;
const POINTS_WITH_MARKERS = 30;

// --- memory ---

function measuredRanks(run) {
  return run.ranks.filter((rank) => rank.memory_allocated_bytes_max !== null);
}

// Of many ranks, the one with most and the one with least tell the story.
function drawnRanks(run) {
  const measured = measuredRanks(run);
  if (measured.length <= MOST_RANKS_DRAWN) return measured;
  const sorted = [...measured].sort(
    (a, b) => b.memory_allocated_bytes_max - a.memory_allocated_bytes_max);
  return [sorted[0], sorted.at(-1)];
}

function memoryRows(runs) {
  const gibibytes = (bytes) => bytes === null || bytes === undefined ? null : bytes / GIBIBYTE;
  return runs.flatMap((run) => drawnRanks(run).map((rank, index) => ({
    run: run.name,
    rank: rank.rank,
    label: index === 0 ? `${run.name}, rank ${rank.rank}` : `rank ${rank.rank}`,
    allocated: gibibytes(rank.memory_allocated_bytes_max),
    reserved: gibibytes(rank.memory_reserved_bytes_max),
    forward: gibibytes(rank.memory_allocated_bytes_forward),
    limit: gibibytes(run.rank_facts.find((fact) => fact.rank === rank.rank)?.device_memory_bytes),
  })));
}

function memoryChart(runs) {
  const rows = memoryRows(runs);
  if (rows.length === 0) return null;
  const most = Math.max(...rows.flatMap((row) => [row.allocated, row.reserved]));
  const isNear = (row) => row.limit !== null && row.limit <= 4 * most;
  const far = rows.filter((row) => row.limit !== null && !isNear(row)).map((row) => row.limit);
  const some = runs.some((run) => measuredRanks(run).length > MOST_RANKS_DRAWN);
  const marker = (theme, colour, style) => ({
    type: "line", showLine: false, pointStyle: style, borderColor: theme.colour(colour), clip: 12,
  });
  return {
    id: "memory", title: "Memory of each rank", wide: true, height: barHeight(rows.length, 24),
    note: "Peaks over all steps, and the most allocated at the end of a forward pass." +
      (some ? ` Of runs with more than ${MOST_RANKS_DRAWN} ranks, the one with most and the one ` +
        "with least." : "") +
      (far.length > 0 ? ` A device's limit of ${formatted(Math.min(...far))} GiB is far beyond ` +
        "the axis." : ""),
    head: ["run", "rank", "allocated peak GiB", "reserved peak GiB",
      "allocated after forward GiB", "device's limit GiB"],
    rows: rows.map((row) =>
      [row.run, row.rank, row.allocated, row.reserved, row.forward, row.limit]),
    config: (theme) => barConfig(theme, rows.map((row) => row.label), [
      {
        label: "reserved, peak", data: rows.map((row) => row.reserved), grouped: false, order: 4,
        backgroundColor: theme.colour("reserved"), barPercentage: 0.95, pointStyle: "rect",
      },
      {
        label: "allocated, peak", data: rows.map((row) => row.allocated), grouped: false, order: 3,
        backgroundColor: theme.colour("allocated"), barPercentage: 0.55, pointStyle: "rect",
      },
      {
        label: "allocated after forward", data: rows.map((row) => row.forward), order: 2,
        ...marker(theme, "text", "rectRot"), backgroundColor: theme.colour("forward"),
        pointRadius: 4, borderWidth: 1.5,
      },
      ...(rows.some(isNear) ? [{
        label: "device's limit", data: rows.map((row) => isNear(row) ? row.limit : null), order: 1,
        ...marker(theme, "limit", "line"), rotation: 90, pointRadius: 12, borderWidth: 3,
      }] : []),
    ], "GiB"),
  };
}

// --- time ---

function stepTimeChart(runs) {
  const rows = runs.filter((run) => run.figures.step_time_ms_median !== null);
  if (rows.length === 0) return null;
  const of = (name) => rows.map((run) => run.figures[name] ?? null);
  const communication = of("communication_time_ms_median");
  const measured = communication.some((time) => time !== null);
  const quartiles = rows.map(({figures}) => [figures.step_time_ms_p25, figures.step_time_ms_p75]);
  return {
    id: "step_time", title: "Step time" + (measured ? " and communication" : ""),
    height: barHeight(rows.length, measured ? 44 : 34),
    note: "Median over steps of the slowest rank; the thin line spans the quartiles." + (measured
      ? " Communication: time in which a collective was under way; it may overlap with " +
        "computation." : ""),
    head: ["run", "step time, median ms", "lower quartile ms", "upper quartile ms",
      "communication, median ms"],
    rows: rows.map((run, index) => [run.name, run.figures.step_time_ms_median,
      ...quartiles[index], communication[index]]),
    config: (theme) => barConfig(theme, rows.map((run) => run.name), [
      {
        label: "quartiles", data: quartiles, order: 1, stack: "step", barPercentage: 0.25,
        backgroundColor: theme.colour("text"), pointStyle: "rect",
      },
      {
        label: "step time", data: of("step_time_ms_median"), order: 2, stack: "step",
        backgroundColor: theme.colour("allocated"), pointStyle: "rect",
      },
      ...(measured ? [{
        label: "communication", data: communication, order: 3, stack: "communication",
        backgroundColor: theme.colour("communication"), pointStyle: "rect",
      }] : []),
    ], "ms"),
  };
}

// --- doubled keys ---

const DOUBLING_FIGURES = [
  {id: "throughput", figure: "tokens_per_second", title: "Throughput", unit: "tokens/s", scale: 1},
  {id: "doubling_step_time", figure: "step_time_ms_median", title: "Step time", unit: "ms",
    scale: 1},
  {id: "doubling_memory", figure: "memory_allocated_bytes_max", title: "Allocated memory, peak",
    unit: "GiB", scale: GIBIBYTE},
];

// "plain size_per_rank=4" without the doubled key's value.
function familyName(run) {
  const {family_key, family_value} = run.figures;
  return run.name.replace(` ${family_key.split(".").at(-1)}=${family_value}`, "");
}

// Runs that differ in one doubled key only, by that key's value.
function families(runs) {
  const found = new Map();
  for (const run of runs) {
    const {family, family_value} = run.figures;
    if (!family || family_value === null) continue;
    if (!found.has(family)) found.set(family, []);
    found.get(family).push(run);
  }
  return [...found.values()].map((members) => ({
    name: familyName(members[0]),
    members: members.sort((a, b) => a.figures.family_value - b.figures.family_value)}));
}

function doublingChart(found, key, {id, figure, title, unit, scale}) {
  const values = [...new Set(found.flatMap(({members}) =>
    members.map((run) => run.figures.family_value)))].sort((a, b) => a - b);
  const points = (members, wanted, y) => members.filter(wanted).map((run) =>
    ({x: run.figures.family_value, y: y(run)}));
  const fits = (run) => run.figures[figure] !== null && run.figures.status !== "out_of_memory";
  const doesNotFit = (run) => run.figures.status === "out_of_memory";
  return {
    id, title: `${title} against ${key}`, height: 320,
    note: "A cross on the axis: out of memory.",
    head: ["runs", key, `${title}, ${unit}`, "status"],
    rows: found.flatMap(({name, members}) => members.map((run) => [name, run.figures.family_value,
      run.figures[figure] === null ? null : run.figures[figure] / scale, run.figures.status])),
    config: (theme) => chartConfig(theme, "line", {
      datasets: found.flatMap(({name, members}, index) => [
        {
          label: name, data: points(members, fits, (run) => run.figures[figure] / scale),
          ...seriesStyle(theme, index), pointRadius: 4,
        },
        {
          label: `${name}: out of memory`, data: points(members, doesNotFit, () => 0),
          showLine: false, clip: 12, pointStyle: "crossRot", pointRadius: 8 + 2 * index,
          borderColor: seriesStyle(theme, index).borderColor, borderWidth: 3,
        },
      ].filter((dataset) => dataset.data.length > 0)),
    }, {
      x: axis(theme, key, {
        type: "logarithmic", min: values[0] / 1.2, max: values.at(-1) * 1.2,
        afterBuildTicks: (scale) => { scale.ticks = values.map((value) => ({value})); },
        ticks: {callback: (value) => String(value)},
      }),
      y: axis(theme, unit, {beginAtZero: true}),
    }),
  };
}

function doublingCharts(runs) {
  const all = families(runs);
  const keys = [...new Set(all.map(({members}) => members[0].figures.family_key))];
  return keys.flatMap((key, index) => {
    const found = all.filter(({members}) => members[0].figures.family_key === key);
    return DOUBLING_FIGURES.map((figure) => doublingChart(found, key,
      index === 0 ? figure : {...figure, id: `${figure.id}_${index}`}));
  });
}

// --- curves ---

function points(curve) {
  return curve.x.map((x, index) => ({x, y: curve.y[index]}));
}

// curves: [{label, curve, style}] of values against `xTitle`.
function curvesChart(about, curves, xTitle, yTitle, yAxis = {}) {
  const thinned = curves.filter(({curve}) => curve.x.length < curve.measured);
  return {
    ...about,
    note: [about.note, ...thinned.map(({label, curve}) =>
      `${label}: ${curve.x.length} of ${curve.measured} points are drawn.`)].join(" ").trim(),
    head: ["curve", xTitle, yTitle],
    rows: curves.flatMap(({label, curve}) => points(curve).map(({x, y}) => [label, x, y])),
    config: (theme) => chartConfig(theme, "line", {
      datasets: curves.map(({label, curve, style}) => ({
        label, data: points(curve), ...seriesStyle(theme, style),
        pointRadius: curve.x.length <= POINTS_WITH_MARKERS ? 3 : 0, clip: 8,
      })),
    }, {
      x: axis(theme, xTitle, {type: "linear"}),
      y: axis(theme, yTitle, yAxis),
    }, {
      interaction: {mode: "nearest", axis: "x", intersect: false},
      tooltip: {title: ([item]) => item ? `${xTitle} ${formatted(item.parsed.x)}` : ""},
    }),
  };
}

function lossChart(runs, name, title) {
  const curves = runs.map((run, style) => ({label: run.name, curve: run[name], style}))
    .filter(({curve}) => curve.x.length > 0);
  if (curves.length === 0) return null;
  const note = "Curves that are equal lie on top of each other.";
  return curvesChart({id: name, title, height: 340, note}, curves, "optimizer step", "loss");
}

// One chart a run: every device of its nodes, idle ones too.
function utilizationCharts(runs) {
  return runs.filter((run) => run.utilization.length > 0).map((run) => {
    const hosts = new Set(run.utilization.map(({host}) => host));
    const curves = run.utilization.map((curve, style) => ({
      label: (hosts.size > 1 ? `${curve.host} ` : "") + curve.device +
        (curve.device !== "cpu" && !curve.own ? " (not this run's)" : ""),
      curve, style,
    }));
    return curvesChart(
      {id: `utilization_${run.figures.run}`, title: run.name, height: 230, note: ""},
      curves, "seconds since the start", "utilization, %", {min: 0, max: 100});
  });
}
