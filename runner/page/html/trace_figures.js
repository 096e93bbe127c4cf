// Figures of traced steps: memory over a step, and what each rank's streams do, side by side.

const STREAM_HEIGHT = 14;
const STREAM_STEP = STREAM_HEIGHT + 4; // from a stream to the next one

// Kinds of spans.
const PART = 0;
const BESIDE = 2;
const COLLECTIVE = 3;

// Returns a figure for each run whose trace has its memory.
function stepMemoryFigures(runs) {
  return runs.filter((run) => run.step_memory.length > 0).map((run, number) => timelineFigure({
    id: `step_memory_${number}`, title: `Memory over a step: ${run.name}`, timeline: run.step_memory,
    planned: gibibytes(run.figures.memory_allocated_bytes_predicted), limit: limitOf(run),
    note: number > 0 ? "" : "What tensors ask for in the first traced step of the rank with the most, in the " +
      "order of their requests.",
  }));
}

// Returns how a span is drawn. null: it is not.
function streamLayerOf(kind, name) {
  if (kind === COLLECTIVE) return {label: "collectives", colour: colourOf("communication")};
  if (kind === BESIDE) return {label: "other streams", colour: colourOf("reserved")};
  const place = TIME_STACKED.findIndex(([, parts]) => parts.includes(name));
  return kind !== PART || place < 0 ? null : {label: TIME_STACKED[place][0], colour: seriesStyle(place).colour};
}

// Returns the streams of a rank that did anything: {label, brief, host, spans: [{from, to, layer, text}]}. The
// times are in ms since the first step of any rank began.
function streamsOf({rank, host, steps}, names, base) {
  const streams = new Map([[PART, "computation"], [COLLECTIVE, "collectives"], [BESIDE, "other streams"]]
    .map(([kind, label]) => [kind,
      {label: `rank ${rank}, ${label}`, brief: kind === PART ? `rank ${rank}` : label, host, spans: []}]));
  let end = 0;
  for (const {begin_unix_ms: begun, spans} of steps) {
    const begin = Math.max(end, begun - base);
    for (const [kind, name, unit, from, time] of spans) {
      const layer = streamLayerOf(kind, names[name]);
      if (layer === null) continue;
      const at = begin + from / 1000;
      const text = unit < 0 ? names[name] : `${names[name]}, unit ${unit}`;
      streams.get(kind).spans.push({from: at, to: at + time / 1000, layer, text});
      if (kind === PART) end = Math.max(end, at + time / 1000);
    }
  }
  const found = [...streams.values()].filter(({spans}) => spans.length > 0);
  found.forEach(({spans}) => spans.sort((one, other) => one.from - other.from));
  return found;
}

// Returns one path for all spans of a layer: thousands of rectangles would be slow.
function pathsOf({spans}, x, [least, most]) {
  const paths = new Map();
  for (const {from, to, layer} of spans) {
    const left = Math.max(least, x(from)), right = Math.min(most, x(to));
    if (right < least || left > most) continue;
    const path = paths.get(layer.label) ?? {layer, d: ""};
    path.d += `M${left.toFixed(2)},0h${Math.max(0.2, right - left).toFixed(2)}v${STREAM_HEIGHT}H${left.toFixed(2)}z`;
    paths.set(layer.label, path);
  }
  return [...paths.values()];
}

function spanAt({spans}, moment) {
  const after = d3.bisector(({from}) => from).right(spans, moment);
  for (let index = after - 1; index >= Math.max(0, after - 100); --index) {
    if (spans[index].to >= moment) return spans[index];
  }
  return undefined;
}

function addStreamRows(plot, streams, nameWidth) {
  return streams.map((stream, index) => {
    const row = plot.append("g").attr("class", "row").attr("data-label", stream.label)
      .attr("transform", `translate(0,${index * STREAM_STEP})`);
    addTip(addText(row, shortened(stream.brief, nameWidth), -10, STREAM_HEIGHT - 3, {anchor: "end"}),
      `${stream.label} on ${stream.host}`);
    return row;
  });
}

// Calls `tell` with the stream and the place, from 0 to `width`, under the pointer.
function followPointer(field, streams, width, tell) {
  field.node().addEventListener("mousemove", ({clientX, clientY}) => {
    const box = field.node().getBoundingClientRect();
    const row = Math.floor((clientY - box.top) / box.height * streams.length);
    tell(streams[row], (clientX - box.left) / box.width * width);
  });
}

// Calls `draw` with the enlarged or moved scale.
function followZoom(field, whole, [width, height], draw) {
  field.call(d3.zoom().duration(0).scaleExtent([1, 1000]).translateExtent([[0, 0], [width, height]])
    .extent([[0, 0], [width, height]])
    .filter(() => d3.event.type !== "wheel" || d3.event.ctrlKey)
    .on("zoom", () => draw(d3.event.transform.rescaleX(whole))));
}

function drawStreams(streams, width) {
  const margin = {left: Math.min(widestOf(streams.map(({brief}) => brief)) + 10, width * 0.35), top: 24, right: 14};
  const inner = Math.max(60, width - margin.left - margin.right);
  const height = streams.length * STREAM_STEP;
  const whole = d3.scaleLinear().domain([0, d3.max(streams, ({spans}) => d3.max(spans, ({to}) => to))])
    .range([0, inner]);
  const svg = newDrawing(width, 0);
  const said = addText(svg, "", 0, 12, {colour: "muted"});
  const plot = svg.append("g").attr("transform", `translate(${margin.left},${margin.top})`);
  const axis = plot.append("g");
  const rows = addStreamRows(plot, streams, margin.left - 10);
  let x = whole;
  const draw = (scale) => {
    x = scale;
    axis.selectAll("*").remove();
    addAxis(axis, d3.axisBottom, x, fittingTicks(x.ticks(tickCount([0, inner])), x, formatted), formatted, height)
      .attr("transform", `translate(0,${height})`);
    rows.forEach((row, index) => row.selectAll("path").data(pathsOf(streams[index], x, [0, inner])).join("path")
      .attr("d", ({d}) => d).attr("data-layer", ({layer}) => layer.label).style("fill", ({layer}) => layer.colour));
  };
  draw(whole);
  const field = plot.append("rect").attr("class", "field").attr("width", inner).attr("height", height)
    .style("fill", "none").style("pointer-events", "all");
  followPointer(field, streams, inner, (stream, left) => {
    const span = stream && spanAt(stream, x.invert(left));
    said.text(span ? shortened(`${stream.label}: ${span.text}, ${formatted(span.to - span.from)} ms`, width) : "");
  });
  followZoom(field, whole, [inner, height], draw);
  const layers = d3.group(streams.flatMap(({spans}) => spans.map(({layer}) => layer)), ({label}) => label);
  const entries = [...layers].map(([label, [{colour}]]) => ({label, add: swatch(colour)}));
  return finishDrawing(svg, {bottom: margin.top + height, title: "ms", middle: margin.left + inner / 2, entries},
    width);
}

// Returns a figure for each traced run.
function streamFigures(runs) {
  return runs.filter((run) => run.traces.ranks.length > 0).map((run, number) => {
    const {names, ranks} = run.traces;
    const base = d3.min(ranks, ({steps}) => d3.min(steps, (step) => step.begin_unix_ms));
    const streams = ranks.flatMap((rank) => streamsOf(rank, names, base));
    const sums = streams.flatMap(({label, spans}) => [...d3.rollup(spans,
      (own) => d3.sum(own, ({from, to}) => to - from), ({layer}) => layer.label)]
      .map(([layer, time]) => [label, layer, time]));
    return {
      id: `streams_${number}`, title: `Traced steps: ${run.name}`, wide: true,
      note: number > 0 ? "" : "What the streams of up to 8 ranks do in up to 2 steps. Double-click or Ctrl and " +
        "the wheel enlarge, dragging moves.",
      head: ["stream", "what", "ms"], rows: sums,
      draw: (width) => drawStreams(streams, width),
    };
  });
}
