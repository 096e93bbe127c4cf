// Parts that all drawings share: text and its width, colours, axes and the legend, as SVG through
// D3. Colours are the page's variables, so a drawing changes with the page: light, dark or printed.

const TEXT_SIZE = 12; // pixels: 9 pt
const TEXT_FONT = 'system-ui, "Segoe UI", Roboto, "DejaVu Sans", sans-serif';
const LINE_HEIGHT = 16;
const LINE_WIDTH = 2;
const SERIES_COLOURS = 8;
const DASHES = ["", "7 3", "2 2", "10 3 2 3"];
const MARKERS = [d3.symbolCircle, d3.symbolSquare, d3.symbolTriangle, d3.symbolDiamond,
  d3.symbolCross, d3.symbolStar];

const colourOf = (name) => `var(--${name})`;

// Returns the style of a series. Colour, dash and marker give 32 different styles.
function seriesStyle(index) {
  return {
    colour: colourOf(`series-${index % SERIES_COLOURS}`),
    dash: DASHES[(index + Math.floor(index / SERIES_COLOURS)) % DASHES.length],
    marker: MARKERS[index % MARKERS.length],
  };
}

const measuringContext = document.createElement("canvas").getContext("2d");

function textWidth(text) {
  measuringContext.font = `${TEXT_SIZE}px ${TEXT_FONT}`;
  return measuringContext.measureText(text).width;
}

const widestOf = (texts) => Math.max(0, ...texts.map(textWidth));

// Shortens a text in the middle, because names of a sweep's runs differ at their ends.
function shortened(text, width) {
  if (textWidth(text) <= width) return text;
  for (let most = text.length - 1; most > 2; --most) {
    const end = Math.floor(most / 2);
    const shorter = text.slice(0, most - end - 1) + "…" + text.slice(-end);
    if (textWidth(shorter) <= width) return shorter;
  }
  return "…";
}

function staysToldApart(names, width) {
  return new Set(names.map((name) => shortened(name, width))).size === new Set(names).size;
}

function newDrawing(width, height) {
  return d3.create("svg")
    .attr("xmlns", "http://www.w3.org/2000/svg")
    .attr("viewBox", `0 0 ${width} ${height}`).attr("width", width).attr("height", height)
    .attr("font-size", TEXT_SIZE).attr("font-family", TEXT_FONT);
}

function addText(parent, text, x, y, {anchor = "start", colour = "text"} = {}) {
  return parent.append("text").attr("x", x).attr("y", y).attr("text-anchor", anchor)
    .style("fill", colourOf(colour)).text(text);
}

function addSymbol(parent, type, x, y, size) {
  return parent.append("path").attr("d", d3.symbol().type(type).size(size)()).attr("transform", `translate(${x},${y})`);
}

function addCross(parent, x, y, radius = 5) {
  return parent.append("path").attr("transform", `translate(${x},${y})`).style("fill", "none")
    .attr("d", `M${-radius},${-radius}L${radius},${radius}M${-radius},${radius}L${radius},${-radius}`);
}

// Adds the text that appears when the pointer rests on the mark.
function addTip(mark, text) {
  mark.append("title").text(text);
}

// Leaves out ticks whose labels would overlap the label before them.
function fittingTicks(values, position, text) {
  let end = -Infinity;
  return values.filter((value) => {
    const half = textWidth(text(value)) / 2;
    const fits = position(value) - half >= end + 8;
    if (fits) end = position(value) + half;
    return fits;
  });
}

// `side` is d3.axisBottom or d3.axisLeft. Ticks are lines of this `length` across the plot.
function addAxis(parent, side, scale, values, text, length) {
  const axis = parent.append("g").call(side(scale).tickValues(values).tickFormat(text)
    .tickSizeInner(-length).tickSizeOuter(0).tickPadding(8));
  axis.attr("class", side === d3.axisLeft ? "axis y" : "axis x").attr("font-size", TEXT_SIZE).attr("font-family", TEXT_FONT);
  axis.selectAll("line").style("stroke", colourOf("line"));
  axis.select(".domain").style("stroke", colourOf("muted"));
  axis.selectAll("text").style("fill", colourOf("muted"));
  return axis;
}

// Divides entries {label, add(group)} into rows. `add` draws a sample 24 wide around its middle.
function legendRows(entries, width) {
  const rows = [];
  let left = width;
  for (const entry of entries) {
    const label = shortened(entry.label, width - 34);
    const taken = 34 + textWidth(label) + 14;
    if (rows.length === 0 || left + taken - 14 > width) {
      rows.push([]);
      left = 0;
    }
    rows.at(-1).push({...entry, label, left});
    left += taken;
  }
  return rows;
}

const legendHeight = (rows) => rows.length === 0 ? 0 : rows.length * LINE_HEIGHT + 10;

function addLegend(svg, rows, x, y) {
  const legend = svg.append("g").attr("class", "legend").attr("transform", `translate(${x},${y})`);
  rows.forEach((row, index) => row.forEach(({label, left, add}) => {
    const entry = legend.append("g").attr("transform",
      `translate(${left},${10 + index * LINE_HEIGHT + LINE_HEIGHT / 2})`);
    add(entry.append("g").attr("transform", "translate(14,0)"));
    addText(entry, label, 32, 4);
  }));
}

const swatch = (colour, height = 10) => (group) => group.append("rect")
  .attr("x", -7).attr("y", -height / 2).attr("width", 14).attr("height", height).style("fill", colour);

// Ends a drawing whose plot is `bottom` high: the title of its axis, with the middle at `middle`, and the
// legend's entries.
function finishDrawing(svg, {bottom, title, middle, entries}, width) {
  const below = bottom + 38;
  addText(svg, title, middle, below, {anchor: "middle", colour: "muted"});
  const legend = legendRows(entries, width);
  addLegend(svg, legend, 0, below + 2);
  const total = below + 6 + legendHeight(legend);
  return svg.attr("height", total).attr("viewBox", `0 0 ${width} ${total}`).node();
}

// --- figures ---

// A figure is {id, title, note, wide, head, rows, draw}. `draw(width)` returns the drawing as SVG.
// `head` and `rows` have its data as a table, the alternative to the drawing. Figures without
// measured data are not made.

const PRINTED_WIDTH = 660; // pixels: A4 less 1 cm margins and the figure's frame
const SAVED_WIDTH = 720;

// Returns the drawing as a file. Its variables are replaced by the colours of the light page.
function standaloneSvg(figure) {
  const light = [...document.styleSheets[0].cssRules].find((rule) => rule.selectorText === ":root").style;
  const svg = figure.draw(SAVED_WIDTH);
  const backdrop = d3.create("svg:rect").attr("width", "100%").attr("height", "100%")
    .style("fill", colourOf("background"));
  svg.prepend(backdrop.node());
  return new XMLSerializer().serializeToString(svg)
    .replace(/var\((--[\w-]+)\)/g, (_, name) => light.getPropertyValue(name).trim());
}

function showFigure(figure, drawn) {
  const number = drawn.length + 1;
  const captionId = `figure-${figure.id}`;
  const save = element("button", {type: "button", class: "save"}, "Save as SVG");
  save.addEventListener("click", () =>
    saveFile(`figure-${number}-${figure.id}.svg`, "image/svg+xml", standaloneSvg(figure)));
  const box = element("div", {class: "drawing", role: "img", "aria-label":
    `${figure.title}. ${figure.note} The data follow as a table.`});
  drawn.push({...figure, box});
  return element("figure", {class: figure.wide ? "wide" : "", "aria-labelledby": captionId}, box,
    element("figcaption", {id: captionId}, element("b", {}, `Figure ${number}. ${figure.title}.`),
      figure.note === "" ? "" : ` ${figure.note}`),
    element("div", {class: "tools"}, save,
      folded("Data as a table", () => [
        scrollBox(`Data: ${figure.title}`, plainTable(figure.head, figure.rows))])));
}

// Redraws the figures if the width changes, and at paper width for printing.
function keepDrawn(drawn) {
  const drawIn = (figure, width) => {
    if (width === 0 || figure.width === width) return;
    figure.width = width;
    const failed = (sentence) => figure.box.replaceChildren(element("p", {class: "remark"}, sentence));
    madeOr(null, figure.title, () => figure.box.replaceChildren(figure.draw(width)), failed);
  };
  const drawAll = (widthOf) => drawn.forEach((figure) => drawIn(figure, widthOf(figure.box)));
  const own = (box) => Math.floor(box.clientWidth);
  drawAll(own);
  addEventListener("resize", () => drawAll(own));
  addEventListener("beforeprint", () => drawAll(() => PRINTED_WIDTH));
  addEventListener("afterprint", () => drawAll(own));
}
