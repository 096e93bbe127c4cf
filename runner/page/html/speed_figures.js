// Figures of a report about speed: steps, doubled keys, numbers of ranks.

function stepTimeFigure(all) {
  const runs = all.filter((run) => run.figures.step_time_ms_median !== null);
  if (runs.length === 0) return null;
  const of = (name) => runs.map((run) => run.figures[name] ?? null);
  const communication = of("communication_time_ms_median");
  const isMeasured = communication.some((time) => time !== null);
  const quartiles = runs.map(({figures}) => [figures.step_time_ms_p25, figures.step_time_ms_p75]);
  const layers = [
    {label: "step", colour: colourOf("allocated"), values: of("step_time_ms_median"), thickness: 0.9},
    {label: "quartiles", colour: colourOf("text"), values: quartiles.map((ends) => ends.includes(null) ? null : ends), thickness: 0.25},
    ...(isMeasured ? [{label: "of it, communication", colour: colourOf("communication"),
      values: communication, thickness: 0.45, lane: 1}] : []),
  ];
  return {
    id: "step_time", title: "Step time" + (isMeasured ? " and communication" : ""), wide: true,
    note: "Median over steps of the slowest rank; the thin line spans the quartiles." + (isMeasured
      ? " Communication: time in which a collective was under way; it may overlap with " +
        "computation." : ""),
    head: ["run", "step time, median ms", "lower quartile ms", "upper quartile ms",
      "communication, median ms"],
    rows: runs.map((run, index) => [run.name, run.figures.step_time_ms_median,
      ...quartiles[index], communication[index]]),
    draw: (width) => drawBars({unit: "ms", names: runs.map((run) => run.name),
      rowHeight: isMeasured ? 28 : 20, layers}, width),
  };
}

// The stacked parts of a step, from the left: a name, and the parts of the account that it sums.
const TIME_STACKED = [
  ["products", ["products_forward", "products_backward"]],
  ["attention", ["attention_forward", "attention_backward"]],
  ["other kernels", ["kernels_forward", "kernels_backward"]],
  ["all-gathers", ["exposed_all_gather_forward", "exposed_all_gather_backward"]],
  ["reductions", ["exposed_reduce_scatter", "exposed_all_reduce"]],
  ["slower ranks", ["slower_ranks"]],
  ["optimizer", ["optimizer", "clipping"]],
  ["other work", ["copies", "conversion", "data", "other_work"]],
];

const timeOf = (figures, parts) => parts.reduce((sum, part) => sum + (figures[`${part}_ms`] ?? 0), 0);

// Returns how long the run's products would take at the peak of its device. null: not known.
function timeAtPeak({figures}) {
  const step = TIME_STACKED.reduce((sum, [, parts]) => sum + timeOf(figures, parts), 0);
  return (figures.hfu_percent ?? null) === null ? null : figures.hfu_percent / 100 * step;
}

function timePartsFigure(all) {
  const runs = all.filter(({figures}) => (figures.account_rank ?? null) !== null);
  if (runs.length === 0) return null;
  const layers = TIME_STACKED.map(([label, parts], style) => ({
    label, stack: true, colour: seriesStyle(style).colour,
    values: runs.map(({figures}) => timeOf(figures, parts)),
  })).filter(({values}) => values.some((value) => value > 0));
  const atPeak = runs.map(timeAtPeak);
  const hasPeak = atPeak.some((time) => time !== null);
  const marks = hasPeak
    ? [{label: "products and attention at the device's peak", mark: "limit", colour: colourOf("text"), values: atPeak}] : [];
  return {
    id: "time_parts", title: "Where the time of a step goes", wide: true,
    note: "One step of the rank that the others waited for. Gathers, reductions and slower ranks: waits beside " +
      "which nothing is computed.",
    head: ["run", ...layers.map(({label}) => `${label} ms`), "hidden communication ms", "rank",
      ...(hasPeak ? ["at the peak ms", "MFU %", "HFU %"] : [])],
    rows: runs.map(({name, figures}, index) => [name, ...layers.map(({values}) => values[index]),
      figures.hidden_communication_ms, figures.account_rank,
      ...(hasPeak ? [atPeak[index], figures.mfu_percent, figures.hfu_percent] : [])]),
    draw: (width) =>
      drawBars({unit: "ms", names: runs.map(({name}) => name), rowHeight: 22, layers: [...layers, ...marks]}, width),
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

// Groups runs that differ only in one doubled key, sorted by its value.
function families(runs) {
  const found = new Map();
  for (const run of runs) {
    const {family, family_value} = run.figures;
    if (!family || !(family_value > 0)) continue;
    if (!found.has(family)) found.set(family, []);
    found.get(family).push(run);
  }
  return [...found.values()].map((members) => ({
    name: familyName(members[0]),
    members: members.sort((a, b) => a.figures.family_value - b.figures.family_value)}));
}

function doublingFigure(found, key, {id, figure, title, unit, scale}) {
  const values = [...new Set(found.flatMap(({members}) =>
    members.map((run) => run.figures.family_value)))].sort((a, b) => a - b);
  const doesNotFit = (run) => run.figures.status === "out_of_memory";
  const points = (members, wanted, y) => members.filter(wanted).map((run) =>
    ({x: run.figures.family_value, y: y(run)}));
  return {
    id, title: `${title} against ${key}`,
    note: found.some(({members}) => members.some(doesNotFit)) ? "A cross on the axis did not fit." : "",
    head: ["runs", key, `${title}, ${unit}`, "status"],
    rows: found.flatMap(({name, members}) => members.map((run) => [name, run.figures.family_value,
      run.figures[figure] === null ? null : run.figures[figure] / scale, run.figures.status])),
    draw: (width) => drawXy({
      height: 240,
      x: {title: key, scale: "log", ticks: values, text: String},
      y: {title: unit, least: 0},
      series: found.flatMap(({name, members}, index) => [
        {
          label: name, style: seriesStyle(index), line: true, markers: true,
          points: points(members, (run) => run.figures[figure] !== null && !doesNotFit(run),
            (run) => run.figures[figure] / scale),
        },
        {
          label: `${name}: out of memory`, style: seriesStyle(index), cross: true,
          points: points(members, doesNotFit, () => 0),
        },
      ].filter((series) => series.points.length > 0)),
    }, width),
  };
}

function doublingFigures(runs) {
  const all = families(runs);
  const keys = [...new Set(all.map(({members}) => members[0].figures.family_key))];
  return keys.flatMap((key, index) => {
    const found = all.filter(({members}) => members[0].figures.family_key === key);
    return DOUBLING_FIGURES.map((figure) => doublingFigure(found, key,
      index === 0 ? figure : {...figure, id: `${figure.id}_${index}`}));
  });
}

// --- numbers of ranks ---

// Groups rows by base, strategy and kind of scaling. The base is the first row of its groups.
function scalingGroups(scaling) {
  const groups = new Map();
  for (const row of scaling.filter(({kind}) => kind !== "base")) {
    const base = scaling.find(({kind, experiment, point}) =>
      kind === "base" && experiment === row.experiment && point === row.base);
    const key = JSON.stringify([row.experiment, row.base, row.strategy, row.kind]);
    if (base && !groups.has(key)) groups.set(key, {label: `${row.strategy}, ${row.kind} scaling`, base, rows: [base]});
    groups.get(key)?.rows.push(row);
  }
  return [...groups.values()].map((group) => ({...group, rows: group.rows.sort((a, b) => a.ranks - b.ranks)}));
}

// Returns ideal lines: each rank is as fast as a rank of the base.
function idealSeries(groups, ranks) {
  const bases = new Map(groups.map(({base}) => [JSON.stringify([base.experiment, base.point]), base]));
  return [...bases.values()].map((base) => ({
    label: `as ${base.point} for each rank`, line: true,
    style: {colour: colourOf("muted"), dash: "2 4", marker: d3.symbolCircle},
    points: ranks.filter((count) => count >= base.ranks)
      .map((count) => ({x: count, y: base.tokens_per_second * count / base.ranks})),
  }));
}

function scalingFigure({scaling}) {
  const groups = scalingGroups(scaling);
  if (groups.length === 0) return null;
  const ranks = [...new Set(groups.flatMap(({rows}) => rows.map((row) => row.ranks)))].sort((a, b) => a - b);
  const series = groups.map(({label, rows}, index) => ({
    label, style: seriesStyle(index), line: true, markers: true,
    points: rows.map((row) => ({x: row.ranks, y: row.tokens_per_second,
      text: `${row.point}: ${formatted(row.tokens_per_second)} tokens/s, ${formatted(row.efficiency_percent)} %`})),
  }));
  return {
    id: "scaling", title: "Throughput against ranks",
    note: "Weak scaling: the total batch grows with the ranks. Strong: it stays.",
    head: ["rows", "run", "ranks", "tokens/s", "efficiency %"],
    rows: groups.flatMap(({label, rows}) => rows.map((row) =>
      [label, row.point, row.ranks, row.tokens_per_second, row.efficiency_percent])),
    draw: (width) => drawXy({
      height: 240, x: {title: "ranks", scale: "log", ticks: ranks, text: String},
      y: {title: "tokens/s", least: 0}, series: [...idealSeries(groups, ranks), ...series],
    }, width),
  };
}
