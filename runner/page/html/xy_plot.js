// Draws {height, x, y, series, limits, beyond, named}: values against values.
//   x, y     {title, scale: "log" or absent, ticks: values or absent, text(value): a tick's label,
//            least, most, whole: ticks at whole numbers only}.
//   series   {label, style: seriesStyle(), points: [{x, y, text}], line, area, markers, width, cross}.
//            A y of null was not measured. An `area` fills from the point's y0 up to its y.
//            A `cross` on the axis marks a run that did not fit.
//   limits   [{x, label}]: vertical lines.
//   beyond   [{label, text}]: crosses in a strip at the right, for runs without an x.
//   named    Points have their series' label beside them if there is room, else in the legend.

const BEYOND_WIDTH = 96;
const FEWEST_TICK_PIXELS = {x: 90, y: 44};

function extentOf(values, {least, most}) {
  const [from, to] = d3.extent(values);
  return [least ?? from ?? 0, most ?? to ?? 1];
}

function scaleOf(axis, values, range) {
  const [least, most] = extentOf(values, axis);
  if (axis.scale === "log") return d3.scaleLog().domain([least / 1.2, most * 1.2]).range(range);
  const scale = d3.scaleLinear().range(range)
    .domain(least === most ? [Math.min(0, least), most || 1] : [least, most]);
  return axis.ticks ? scale : scale.nice(tickCount(range));
}

function tickCount([from, to]) {
  const pixels = from < to ? FEWEST_TICK_PIXELS.x : FEWEST_TICK_PIXELS.y;
  return Math.max(2, Math.floor(Math.abs(to - from) / pixels));
}

function ticksOf(axis, scale) {
  const values = axis.ticks ?? scale.ticks(tickCount(scale.range()));
  return axis.whole ? values.filter(Number.isInteger) : values;
}

function lineSample({style, line, area, cross, markers, width}) {
  return (group) => {
    if (area) return swatch(style.colour)(group);
    if (line) {
      group.append("path").attr("d", "M-12,0H12").style("stroke", style.colour)
        .style("stroke-width", width ?? LINE_WIDTH).style("stroke-dasharray", style.dash);
    }
    if (cross) addCross(group, 0, 0).style("stroke", style.colour).style("stroke-width", 2.5);
    if (!cross && (markers || !line)) addSymbol(group, style.marker, 0, 0, 40).style("fill", style.colour);
  };
}

function addSeries(plot, series, x, y, text) {
  const {label, style, points, line, area, cross, markers, width} = series;
  const group = plot.append("g").attr("class", "series").attr("data-label", label);
  const isThere = (point) => point.y !== null;
  if (area) {
    group.append("path").style("fill", style.colour)
      .attr("d", d3.area().x((p) => x(p.x)).y0((p) => y(p.y0)).y1((p) => y(p.y))(points));
  } else if (line) {
    group.append("path").style("fill", "none").style("stroke", style.colour)
      .style("stroke-width", width ?? LINE_WIDTH).style("stroke-dasharray", style.dash)
      .attr("d", d3.line().defined(isThere).x((p) => x(p.x)).y((p) => y(p.y))(points));
  }
  if (!markers && !cross) return;
  for (const point of points.filter(isThere)) {
    const mark = cross
      ? addCross(group, x(point.x), y(point.y)).style("stroke", style.colour).style("stroke-width", 2.5)
      : addSymbol(group, style.marker, x(point.x), y(point.y), 44).style("fill", style.colour);
    addTip(mark.attr("class", "mark"), point.text ?? `${label}: ${text(point)}`);
  }
}

// Returns a free place for a name beside its point, {anchor, x, y}. null if there is none.
function roomBeside(name, at, taken, width, height) {
  const wide = textWidth(name);
  const places = [["start", 9, 4], ["end", -9, 4], ["middle", 0, -9], ["middle", 0, 19],
    ["start", 7, -8], ["start", 7, 17], ["end", -7, -8], ["end", -7, 17]];
  for (const [anchor, dx, dy] of places) {
    const left = at.x + dx - {start: 0, middle: wide / 2, end: wide}[anchor];
    const box = {left, right: left + wide, top: at.y + dy - 11, bottom: at.y + dy + 3};
    const isInside = box.left >= 0 && box.right <= width && box.top >= 0 && box.bottom <= height;
    if (isInside && taken.every((other) => box.right < other.left || other.right < box.left ||
        box.bottom < other.top || other.bottom < box.top)) {
      taken.push(box);
      return {anchor, x: at.x + dx, y: at.y + dy};
    }
  }
  return null;
}

// Writes the whole name of its series at each point. Returns the series without enough room.
function addNames(plot, all, x, y, width, height, taken) {
  const points = all.flatMap((series) => series.points.filter((point) => point.y !== null)
    .map((point) => ({series, at: {x: x(point.x), y: y(point.y)}})));
  taken.push(...points.map(({at}) => ({left: at.x - 6, right: at.x + 6, top: at.y - 6, bottom: at.y + 6})));
  return points.filter(({series, at}) => {
    const place = roomBeside(series.label, at, taken, width, height);
    if (place) addText(plot, series.label, place.x, place.y, {anchor: place.anchor}).attr("class", "name");
    return place === null;
  }).map(({series}) => series);
}

function addLimits(plot, limits, x, height, width, taken) {
  limits.forEach(({x: value, label}, index) => {
    plot.append("path").attr("class", "limit").attr("d", `M${x(value)},0V${height}`)
      .style("stroke", colourOf("limit")).style("stroke-width", 2).style("stroke-dasharray", "6 4");
    const name = shortened(label, width / 2);
    const isLeft = x(value) - 6 >= textWidth(name);
    const at = {x: x(value) + (isLeft ? -6 : 6), y: 12 + index * LINE_HEIGHT};
    addText(plot, name, at.x, at.y, {anchor: isLeft ? "end" : "start", colour: "limit"});
    const left = isLeft ? at.x - textWidth(name) : at.x;
    taken.push({left, right: left + textWidth(name), top: at.y - 11, bottom: at.y + 3},
      {left: x(value) - 2, right: x(value) + 2, top: 0, bottom: height});
  });
}

function addBeyond(plot, beyond, left, height) {
  plot.append("rect").attr("x", left).attr("width", BEYOND_WIDTH).attr("y", 0).attr("height", height)
    .style("fill", colourOf("surface"));
  const shown = beyond.slice(0, Math.floor((height - 24) / 30));
  addText(plot, "did not fit", left + BEYOND_WIDTH / 2, 13, {anchor: "middle", colour: "limit"});
  shown.forEach(({label, text}, index) => {
    const y = 32 + index * 30;
    const mark = addCross(plot, left + BEYOND_WIDTH / 2, y).attr("class", "mark beyond")
      .attr("data-label", label).style("stroke", colourOf("limit")).style("stroke-width", 2.5);
    addTip(mark, `${label}: ${text}`);
    addText(plot, shortened(label, BEYOND_WIDTH - 8), left + BEYOND_WIDTH / 2, y + 18, {anchor: "middle"});
  });
  if (shown.length < beyond.length) {
    addText(plot, `and ${beyond.length - shown.length} more`, left + BEYOND_WIDTH / 2, height - 5,
      {anchor: "middle"});
  }
}

function drawXy({height, x: xAxis, y: yAxis, series, limits = [], beyond = [], named = false}, width) {
  const values = (name) => series.flatMap(({points}) => points.map((point) => point[name]))
    .filter((value) => value !== null && value !== undefined);
  const xValues = [...values("x"), ...limits.map(({x}) => x)];
  const yText = yAxis.text ?? formatted, xText = xAxis.text ?? formatted;
  const y = scaleOf(yAxis, [...values("y"), ...values("y0")], [height, 0]);
  const yTicks = ticksOf(yAxis, y);
  const strip = beyond.length > 0 ? BEYOND_WIDTH : 0;
  const margin = {top: 26, left: widestOf(yTicks.map(yText)) + 14, right: 14};
  const inner = Math.max(60, width - margin.left - margin.right - strip);
  const x = scaleOf(xAxis, xValues, [0, inner]);
  const xTicks = fittingTicks(ticksOf(xAxis, x), x, xText);
  const overhang = xTicks.length > 0 && strip === 0
    ? x(xTicks.at(-1)) + textWidth(xText(xTicks.at(-1))) / 2 - inner - margin.right : 0;
  if (overhang > 0) x.range([0, inner - overhang]);
  const right = x.range()[1];

  const svg = newDrawing(width, 0);
  addText(svg, shortened(yAxis.title, width), 0, 12, {colour: "muted"});
  const plot = svg.append("g").attr("transform", `translate(${margin.left},${margin.top})`);
  addAxis(plot, d3.axisLeft, y, yTicks, yText, right);
  addAxis(plot, d3.axisBottom, x, xTicks, xText, height).attr("transform", `translate(0,${height})`);
  const taken = [];
  if (strip > 0) addBeyond(plot, beyond, right + 6, height);
  addLimits(plot, limits, x, height, right, taken);
  const tip = (point) => `${xAxis.title} ${xText(point.x)}, ${yAxis.title} ${formatted(point.y)}`;
  for (const one of series) addSeries(plot, one, x, y, tip);
  const listed = named ? addNames(plot, series, x, y, right, height, taken) : series;

  const entries = [...new Set(listed)].map((one) => ({label: one.label, add: lineSample(one)}));
  return finishDrawing(svg, {bottom: margin.top + height, title: shortened(xAxis.title, inner),
    middle: margin.left + right / 2, entries}, width);
}
