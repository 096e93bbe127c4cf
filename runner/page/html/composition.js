// Draws memory by its use: stacked bars and timelines of plans and of measured runs.

const GIBIBYTE = 2 ** 30;
const FAR = 4; // a limit this many times the peak would squeeze the drawing

// The stacked parts of bars and areas, from below: a name, and the uses of memory that it sums.
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

const threeDigits = (value) => String(Number(value.toPrecision(3)));

function gibibytesOf(moment, uses) {
  return uses.reduce((sum, use) => sum + moment[`${use}_bytes`], 0) / GIBIBYTE;
}

// Returns the parts that occur in any moment, with their styles.
function layersOf(moments) {
  return STACKED.map(([label, uses], style) => ({
    label, style, data: moments.map((moment) => gibibytesOf(moment, uses)),
  })).filter(({data}) => data.some((value) => value > 0));
}

function farLimitNote(limits, most) {
  const far = limits.filter((limit) => limit !== null && limit > FAR * most);
  return far.length === 0 ? ""
    : ` A limit of ${threeDigits(Math.min(...far))} GiB is far beyond the axis.`;
}

// Returns a figure with a bar for each of `bars`: {name, peak, total, limit}. `peak` has the bytes
// of each use, and `total` has all bytes. `rest` names the memory without a use. `limit` may be
// null.
function compositionFigure({bars, rest, note}) {
  const names = bars.map(({name}) => name);
  const stacked = layersOf(bars.map(({peak}) => peak));
  const inAll = bars.map(({total}) => total / GIBIBYTE);
  const rests = inAll.map((total, index) =>
    stacked.reduce((left, {data}) => left - data[index], total));
  const limits = bars.map(({limit}) => limit === null ? null : limit / GIBIBYTE);
  const most = Math.max(...inAll);
  const near = limits.map((limit) => limit === null || limit > FAR * most ? null : limit);
  const hasRest = rests.some((value) => value > most * 1e-6);
  const layers = [
    ...stacked.map(({label, style, data}) =>
      ({label, values: data, stack: true, colour: seriesStyle(style).colour})),
    ...(hasRest ? [{label: rest, values: rests.map((value) => Math.max(0, value)), stack: true,
      colour: colourOf("reserved")}] : []),
    ...(near.some((limit) => limit !== null)
      ? [{label: "limit", mark: "limit", colour: colourOf("limit"), values: near}] : []),
  ];
  return {
    id: "composition", title: "Memory at the peak, on the rank with the most", wide: true,
    note: note + farLimitNote(limits, most),
    head: ["run", ...stacked.map(({label}) => `${label} GiB`), ...(hasRest ? [`${rest} GiB`] : []),
      "limit GiB"],
    rows: names.map((name, index) => [name, ...stacked.map(({data}) => data[index]),
      ...(hasRest ? [rests[index]] : []), limits[index]]),
    draw: (width) => drawBars({unit: "GiB", names, rowHeight: 22, layers}, width),
  };
}

// Returns the starts of phases, as the number of earlier allocations. Phases too short for their
// names are left out.
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

// Returns stacked areas: a point's y0 is the y of the layer below it.
function areasOf(layers, timeline) {
  const reached = timeline.map(() => 0);
  return layers.map(({label, style, data}) => ({
    label, style: seriesStyle(style), area: true,
    points: data.map((value, index) => {
      reached[index] += value;
      return {x: timeline[index].allocation, y0: reached[index] - value, y: reached[index]};
    }),
  }));
}

// Returns a figure of how memory rises and falls. `planned` and `limit`, in GiB, may be null.
function timelineFigure({id, title, note, timeline, planned = null, limit = null}) {
  const layers = layersOf(timeline);
  const starts = phaseStarts(timeline);
  const phaseAt = (allocation) => starts.find(({value}) => value === allocation)?.phase ?? "";
  const [least, most] = [timeline[0].allocation, timeline.at(-1).allocation];
  const areas = areasOf(layers, timeline);
  const highest = d3.max(areas.at(-1).points, ({y}) => y);
  const level = (label, y, style) => y === null || y > FAR * highest ? []
    : [{label, line: true, style, points: [{x: least, y}, {x: most, y}]}];
  const levels = [...level("planned peak", planned, {colour: colourOf("text"), dash: "6 4"}),
    ...level("limit", limit, {colour: colourOf("limit"), dash: ""})];
  return {
    id, title, wide: true, note: note + farLimitNote([limit], highest),
    head: ["allocations before", "moment", ...layers.map(({label}) => `${label} GiB`)],
    rows: timeline.map((moment, index) =>
      [moment.allocation, momentText(moment), ...layers.map(({data}) => data[index])]),
    draw: (width) => drawXy({
      height: 200,
      x: {title: "phase", ticks: starts.map(({value}) => value), text: phaseAt, least, most},
      y: {title: "GiB", least: 0},
      series: [...areas, ...levels],
    }, width),
  };
}
