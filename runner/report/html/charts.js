// A chart is {id, title, note, height, wide, head, rows, config}: `head` and `rows` are its data as
// a table, the alternative to the drawing; `config(theme)` is what Chart.js draws. Charts of which
// nothing was measured are not made.

const DASHES = [[], [7, 3], [2, 2], [10, 3, 2, 3]];
const MARKERS = ["circle", "rect", "triangle", "rectRot", "crossRot", "star"];

// Colours of the page as they are now, light or dark.
function currentTheme() {
  const style = getComputedStyle(document.documentElement);
  const colour = (name) => style.getPropertyValue("--" + name).trim();
  return {colour, series: colour("series").split(/\s+/)};
}

// Runs are told apart by colour, dash and marker: 32 different ones.
function seriesStyle(theme, index) {
  const colour = theme.series[index % theme.series.length];
  return {
    borderColor: colour, backgroundColor: colour, borderWidth: 2,
    borderDash: DASHES[(index + Math.floor(index / theme.series.length)) % DASHES.length],
    pointStyle: MARKERS[index % MARKERS.length],
  };
}

// In the middle: names that a sweep makes differ at their ends.
function shortened(text, most) {
  const end = Math.floor(most / 2);
  return text.length > most ? text.slice(0, most - end - 1) + "…" + text.slice(-end) : text;
}

function axis(theme, title, more = {}) {
  return {
    title: {display: title !== "", text: title, color: theme.colour("muted")},
    grid: {color: theme.colour("line"), borderColor: theme.colour("muted")},
    ...more,
    ticks: {color: theme.colour("muted"), maxRotation: 0, ...more.ticks},
  };
}

// Names of what is compared, one below the other.
function nameAxis(theme) {
  return axis(theme, "", {
    grid: {display: false},
    ticks: {
      autoSkip: false,
      color: theme.colour("text"),
      callback(value) {
        const {width} = this.chart;
        return shortened(this.getLabelForValue(value), width < 480 ? 16 : width < 800 ? 30 : 48);
      },
    },
  });
}

function chartConfig(theme, type, data, scales, options = {}) {
  return {
    type, data,
    options: {
      animation: false,
      responsive: true,
      maintainAspectRatio: false,
      scales,
      ...options,
      plugins: {
        legend: {
          position: "bottom",
          labels: {color: theme.colour("text"), usePointStyle: true, boxHeight: 7, padding: 12},
          ...options.legend,
        },
        tooltip: {callbacks: options.tooltip ?? {}},
      },
    },
  };
}

function barConfig(theme, labels, datasets, unit) {
  return chartConfig(theme, "bar", {labels, datasets},
    {x: axis(theme, unit, {beginAtZero: true, stacked: false}), y: nameAxis(theme)},
    {
      indexAxis: "y",
      interaction: {mode: "index", axis: "y", intersect: false},
      tooltip: {
        label: ({dataset, raw}) => raw === null ? "" : `${dataset.label}: ` +
          (Array.isArray(raw) ? raw.map(formatted).join(" to ") : formatted(raw)) + ` ${unit}`,
      },
    });
}

function barHeight(bars, each) {
  return 90 + bars * each;
}

function showChart(chart, drawn) {
  const headingId = `chart-${chart.id}`;
  const canvas = element("canvas", {role: "img", "aria-label":
    `${chart.title}. ${chart.note} The data follow as a table.`});
  const box = element("div", {class: "canvas"}, canvas);
  box.style.height = `${chart.height}px`;
  drawn.push({...chart, canvas});
  return element("figure", {class: chart.wide ? "wide" : "", "aria-labelledby": headingId},
    element("h3", {id: headingId}, chart.title), box,
    element("figcaption", {}, chart.note),
    folded("Data as a table", () => [
      scrollBox(`Data: ${chart.title}`, plainTable(chart.head, chart.rows))]));
}

// Draws again when the page turns light, dark, or is printed.
function keepDrawn(drawn) {
  const draw = () => {
    const theme = currentTheme();
    for (const chart of drawn) {
      chart.chart?.destroy();
      chart.chart = new Chart(chart.canvas, chart.config(theme));
    }
  };
  draw();
  matchMedia("screen and (prefers-color-scheme: dark)").addEventListener("change", draw);
}
