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
