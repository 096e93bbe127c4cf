// Figures of a report with curves: losses, utilization.

const POINTS_WITH_MARKERS = 30;
const MOST_NAMED = 4;
const SAME_PART = 0.003; // of the range of all curves: about a line's width

// Returns for each curve the earlier curves that coincide with it.
function curvesBelow(curves) {
  const values = curves.flatMap(({points}) => points.map(({y}) => y)).filter((y) => y !== null);
  const near = SAME_PART * (Math.max(...values) - Math.min(...values));
  const coincide = (a, b) => a.points.length === b.points.length && a.points.every(({x, y}, index) => {
    const other = b.points[index];
    return x === other.x && (y === null || other.y === null ? y === other.y : Math.abs(y - other.y) <= near);
  });
  return curves.map((curve, index) =>
    curves.slice(0, index).filter((other) => coincide(curve, other)));
}

// Adds widths. Curves that coincide are drawn from wide to narrow, so that each is visible.
function withWidths(curves, below) {
  const above = curves.map((curve) => below.filter((others) => others.includes(curve)).length);
  return curves.map((curve, index) => ({...curve, width: LINE_WIDTH + 3 * Math.min(3, above[index])}));
}

// Groups curves that all coincide with each other. Two curves that coincide with a third need not
// coincide themselves.
function groupsThatCoincide(curves, below) {
  const groups = [];
  curves.forEach((curve, index) => {
    const group = groups.find((others) => others.every((other) => below[index].includes(other)));
    group ? group.push(curve) : groups.push([curve]);
  });
  return groups;
}

function coincidenceNote(curves, below) {
  const groups = groupsThatCoincide(curves, below).filter((group) => group.length > 1);
  if (groups.length === 0) return "";
  const names = (group) => group.slice(0, MOST_NAMED).map(({label}) => label).join(", ") +
    (group.length > MOST_NAMED ? ` and ${group.length - MOST_NAMED} more` : "");
  return groups.map(names).join("; ") + " coincide: wide lines lie below narrow ones.";
}

// Takes curves [{label, measured, points, style}] of values against `x.title`.
function curvesFigure(about, curves, x, y) {
  const thinned = curves.filter(({points, measured}) => points.length < measured);
  const below = curvesBelow(curves);
  const series = withWidths(curves, below).map((curve) => ({
    ...curve, line: true, markers: curve.points.length <= POINTS_WITH_MARKERS,
    style: {...seriesStyle(curve.style), ...(curve.width > LINE_WIDTH ? {dash: ""} : {})},
  }));
  return {
    ...about,
    note: [about.note, coincidenceNote(curves, below), ...thinned.map(({label, points, measured}) =>
      `${label}: ${points.length} of ${measured} points are drawn.`)].join(" ").trim(),
    head: ["curve", x.title, y.title],
    rows: curves.flatMap(({label, points}) => points.map((point) => [label, point.x, point.y])),
    draw: (width) => drawXy({height: about.height, x, y, series}, width),
  };
}

function pointsOf(curve, scale = 1) {
  return curve.x.map((x, index) => ({x: x * scale, y: curve.y[index]}));
}

// Returns the figure of losses over steps. If batch sizes differ, a figure of losses over the
// sequences seen comes first.
function lossFigures(runs, name, title) {
  const drawn = runs.map((run, style) => ({run, style})).filter(({run}) => run[name].x.length > 0);
  if (drawn.length === 0) return [];
  const curves = (scaleOf) => drawn.map(({run, style}) => ({label: run.name, style,
    measured: run[name].measured, points: pointsOf(run[name], scaleOf(run))}));
  const figure = (id, over, x, scaleOf) => curvesFigure(
    {id, title: `${title} over ${over}`, height: 260, note: ""}, curves(scaleOf), {...x, whole: true},
    {title: "loss"});
  const batches = [...new Set(drawn.map(({run}) => run.figures.total_batch))];
  const steps = figure(name, "steps",
    {title: batches.length === 1 ? `optimizer step of ${batches[0]} sequences` : "optimizer step"}, () => 1);
  if (batches.length === 1) return [steps];
  return [figure(`${name}_sequences`, "sequences seen", {title: "sequences seen"},
    (run) => run.figures.total_batch), steps];
}

// Returns a figure for each group of runs whose losses must be equal: how far they are apart, and
// what rounding explains.
function lossDifferenceFigures(groups) {
  return groups.filter(({difference}) => difference.y.some((y) => y !== null)).map((group, number) => {
    const names = group.runs.slice(0, MOST_NAMED).join(", ") +
      (group.runs.length > MOST_NAMED ? ` and ${group.runs.length - MOST_NAMED} more` : "");
    const curves = [{label: "difference", style: 0}, {label: "allowed", style: 1}].map(({label, style}) => ({
      label, style, measured: group[label].measured, points: pointsOf(group[label])}));
    const powers = d3.extent(curves.flatMap(({points}) => points.map(({y}) => y)).filter((y) => y !== null)
      .map(Math.log10));
    const ticks = d3.range(Math.floor(powers[0]), Math.ceil(powers[1]) + 1).map((power) => Number(`1e${power}`));
    const verdict = group.parting_step === null ? "They agree: rounding explains the difference."
      : `They part at step ${group.parting_step}.`;
    return curvesFigure({id: `loss_difference_${number}`, title: `Difference of losses: ${names}`, height: 200,
      note: [verdict, group.divergence, "Steps with equal losses are not drawn."].join(" ")}, curves, {title: "optimizer step", whole: true},
      {title: "relative difference", scale: "log", ticks, least: ticks[0], most: ticks.at(-1),
        text: (value) => value.toExponential(0)});
  });
}

// Returns a figure per run, with every device of its nodes, even idle ones.
function utilizationFigures(runs) {
  return runs.filter((run) => run.utilization.length > 0).map((run) => {
    const hosts = new Set(run.utilization.map(({host}) => host));
    const curves = run.utilization.map((curve, style) => ({
      label: (hosts.size > 1 ? `${curve.host} ` : "") + curve.device +
        (curve.device !== "cpu" && !curve.own ? " (not this run's)" : ""),
      measured: curve.measured, points: pointsOf(curve), style,
    }));
    return curvesFigure(
      {id: `utilization_${run.figures.run}`, title: `Utilization: ${run.name}`, height: 160, note: ""},
      curves, {title: "seconds since the start"}, {title: "%", least: 0, most: 100});
  });
}
