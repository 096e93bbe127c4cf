// Draws {unit, names, layers, rowHeight}: horizontal bars, a row for each name.
//   layers   {label, colour, values, thickness, lane, stack, mark}, a value per name. null: no bar.
//            Values are numbers, or [from, to]. The bar fills the part `thickness` of its row or lane.
//            `lane` is its place among bars side by side. A `stack` begins at the end of the layer
//            before it. A `mark`, "diamond" or "limit", replaces the bar.
// Names are above their bars on narrow pages, or if shortened names would be equal.

const NARROW = 560;
const WIDEST_NAME = 260;

const endOf = (value) => Array.isArray(value) ? value[1] : value;

// Returns the ends of each layer's bars: [from, to] per name, or null.
function spansOf(layers) {
  const reached = layers[0].values.map(() => 0);
  return layers.map(({values, stack}) => values.map((value, index) => {
    if (value === null) return null;
    if (Array.isArray(value)) return value;
    if (!stack) return [0, value];
    reached[index] += value;
    return [reached[index] - value, reached[index]];
  }));
}

function addMark(row, layer, x, top, height) {
  if (layer.mark === "limit") {
    return row.append("path").attr("d", `M${x},${top - 2}v${height + 4}`)
      .style("stroke", layer.colour).style("stroke-width", 3);
  }
  return addSymbol(row, d3.symbolDiamond, x, top + height / 2, 44)
    .style("fill", colourOf("background")).style("stroke", colourOf("text")).style("stroke-width", 1.5);
}

function addBar(row, layer, [from, to], x, laneTop, laneHeight) {
  if (layer.mark) return addMark(row, layer, x(to), laneTop, laneHeight);
  const height = laneHeight * (layer.thickness ?? 1);
  return row.append("rect").attr("x", x(from)).attr("width", Math.max(1, x(to) - x(from)))
    .attr("y", laneTop + (laneHeight - height) / 2).attr("height", height)
    .style("fill", layer.colour)
    .style("stroke", layer.stack ? colourOf("background") : "none");
}

function barSample(layer) {
  if (layer.mark) return (group) => addMark(group, layer, 0, -6, 12);
  return swatch(layer.colour, 12 * (layer.thickness ?? 1));
}

function rowTip(layer, value, unit) {
  const text = Array.isArray(value) ? value.map(formatted).join(" to ") : formatted(value);
  return `${layer.label}: ${text} ${unit}`;
}

function drawBars({unit, names, layers, rowHeight}, width) {
  const besideBars = Math.min(WIDEST_NAME, width * 0.35, widestOf(names) + 12);
  const isAbove = width < NARROW || !staysToldApart(names, besideBars - 12);
  const nameWidth = isAbove ? textWidth("0") : besideBars;
  const nameHeight = isAbove ? LINE_HEIGHT : 0;
  const spans = spansOf(layers);
  const most = Math.max(...spans.flat().filter((span) => span !== null).map(endOf));
  const right = 8 + textWidth(formatted(most)) / 2;
  const x = d3.scaleLinear().domain([0, most > 0 ? most : 1]).range([0, width - nameWidth - right]);
  x.nice(tickCount(x.range()));
  const step = rowHeight + nameHeight + 6;
  const height = names.length * step;
  const lanes = 1 + Math.max(...layers.map(({lane = 0}) => lane));

  const svg = newDrawing(width, 0);
  const plot = svg.append("g").attr("transform", `translate(${nameWidth},4)`);
  addAxis(plot, d3.axisBottom, x, fittingTicks(x.ticks(tickCount(x.range())), x, formatted), formatted, height)
    .attr("transform", `translate(0,${height})`);
  names.forEach((name, index) => {
    const top = index * step + nameHeight + 3;
    const row = plot.append("g").attr("class", "row").attr("data-label", name);
    const shown = shortened(name, isAbove ? width - right : nameWidth - 12);
    addTip(addText(row, shown, isAbove ? 0 : -10, isAbove ? top - 4 : top + rowHeight / 2 + 4,
      {anchor: isAbove ? "start" : "end"}), name);
    layers.forEach((layer, at) => {
      const span = spans[at][index];
      if (span === null) return;
      const laneHeight = rowHeight / lanes;
      const bar = addBar(row, layer, span, x, top + (layer.lane ?? 0) * laneHeight, laneHeight);
      addTip(bar.attr("class", "bar").attr("data-layer", layer.label), rowTip(layer, layer.values[index], unit));
    });
  });
  const entries = layers.map((layer) => ({label: layer.label, add: barSample(layer)}));
  return finishDrawing(svg, {bottom: 4 + height, title: unit, middle: nameWidth + (width - nameWidth - right) / 2,
    entries}, width);
}
