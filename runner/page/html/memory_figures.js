// Figures of a report about memory.

const MOST_RANKS_DRAWN = 8;

const gibibytes = (bytes) => bytes === null || bytes === undefined ? null : bytes / GIBIBYTE;

// Returns the memory limit of a run on its device, in GiB. null if it is unknown.
function limitOf({figures}) {
  const limits = [figures.memory_limit_gib || null, gibibytes(figures.device_memory_bytes)]
    .filter((limit) => limit !== null);
  return limits.length === 0 ? null : Math.min(...limits);
}

// Returns a figure with a mark for each run: its speed against its memory.
function throughputMemoryFigure(runs) {
  const drawn = runs.map((run, style) => ({run, style, memory: gibibytes(run.figures.memory_allocated_bytes_max)}))
    .filter(({run, memory}) => memory !== null && run.figures.tokens_per_second !== null &&
      run.figures.status !== "out_of_memory");
  if (drawn.length === 0) return null;
  const beyond = runs.filter(({figures}) => figures.status === "out_of_memory");
  const most = Math.max(...drawn.map(({memory}) => memory));
  const limits = [...new Set(runs.map(limitOf))].filter((limit) => limit !== null);
  const near = limits.filter((limit) => limit <= FAR * most);
  return {
    id: "throughput_memory", title: "Throughput against memory", wide: true,
    note: "Memory is the peak of allocated memory, on the rank with the highest peak. Higher is faster, and further " +
      "left takes less." + (drawn.some(({run}) => run.doubt) ? " Parentheses say why a speed cannot be compared." : "") +
      farLimitNote(limits, most),
    head: ["run", "memory GiB", "tokens/s", "limit GiB", "status"],
    rows: [...drawn.map(({run, memory}) =>
      [run.name, memory, run.figures.tokens_per_second, limitOf(run), run.figures.status]),
    ...beyond.map((run) => [run.name, null, null, limitOf(run), run.figures.status])],
    draw: (width) => drawXy({
      height: 320, named: true,
      x: {title: "memory, GiB", least: 0},
      y: {title: "tokens/s", least: 0},
      series: drawn.map(({run, style, memory}) => ({
        label: run.doubt ? `${run.name} (${run.doubt})` : run.name, style: seriesStyle(style), markers: true,
        points: [{x: memory, y: run.figures.tokens_per_second}],
      })),
      limits: near.map((limit) => ({x: limit, label: `limit ${threeDigits(limit)} GiB`})),
      beyond: beyond.map((run) => ({label: run.name, text: run.figures.reason})),
    }, width),
  };
}

function measuredRanks(run) {
  return run.ranks.filter((rank) => rank.memory_allocated_bytes_max !== null);
}

function rankRow(run, rank, label) {
  return {
    run: run.name, rank: rank.rank, label, range: null,
    allocated: gibibytes(rank.memory_allocated_bytes_max),
    reserved: gibibytes(rank.memory_reserved_bytes_max),
    forward: gibibytes(rank.memory_allocated_bytes_forward),
    limit: limitOf(run),
  };
}

// Returns one row for many ranks: the maximum of each figure, and the range of allocated memory.
function manyRanksRow(run, ranks) {
  const of = (name) => ranks.map((rank) => gibibytes(rank[name])).filter((value) => value !== null);
  const most = (name) => of(name).length === 0 ? null : Math.max(...of(name));
  const allocated = of("memory_allocated_bytes_max");
  return {
    run: run.name, rank: `${ranks.length} ranks`, label: `${run.name}, ${ranks.length} ranks`,
    range: [Math.min(...allocated), Math.max(...allocated)],
    allocated: Math.max(...allocated), reserved: most("memory_reserved_bytes_max"),
    forward: most("memory_allocated_bytes_forward"), limit: limitOf(run),
  };
}

function memoryRows(runs) {
  return runs.flatMap((run) => {
    const ranks = measuredRanks(run);
    if (ranks.length > MOST_RANKS_DRAWN) return [manyRanksRow(run, ranks)];
    return ranks.map((rank, index) =>
      rankRow(run, rank, index === 0 ? `${run.name}, rank ${rank.rank}` : `rank ${rank.rank}`));
  });
}

function memoryFigure(runs) {
  const rows = memoryRows(runs);
  if (rows.length === 0) return null;
  const of = (name) => rows.map((row) => row[name]);
  const most = Math.max(...of("allocated"), ...of("reserved"));
  const limits = of("limit").map((limit) => limit === null || limit > FAR * most ? null : limit);
  const layers = [
    {label: "reserved, peak", colour: colourOf("reserved"), values: of("reserved"), thickness: 0.95},
    {label: "allocated, peak", colour: colourOf("allocated"), values: of("allocated"), thickness: 0.55},
    {label: "least to most of the ranks", colour: colourOf("text"), values: of("range"), thickness: 0.15},
    {label: "allocated after forward", mark: "diamond", colour: colourOf("text"), values: of("forward")},
    {label: "limit", mark: "limit", colour: colourOf("limit"), values: limits},
  ].filter(({values}) => values.some((value) => value !== null));
  return {
    id: "memory", title: "Memory of each rank", wide: true,
    note: "Peaks over all steps, and the most allocated at the end of a forward pass." +
      (of("range").some((range) => range !== null) ? ` Runs with more than ${MOST_RANKS_DRAWN} ranks have ` +
        "one row, with the figures of the ranks with the most." : "") + farLimitNote(of("limit"), most),
    head: ["run", "rank", "allocated peak GiB", "reserved peak GiB", "allocated after forward GiB",
      "limit GiB"],
    rows: rows.map((row) =>
      [row.run, row.rank, row.allocated, row.reserved, row.forward, row.limit]),
    draw: (width) => drawBars({unit: "GiB", names: of("label"), rowHeight: 20, layers}, width),
  };
}

// Returns the figure of the measured runs' memory by its use. null: no run reported it.
function memoryUsesFigure(all) {
  const runs = all.filter((run) => run.memory_peak !== null);
  if (runs.length === 0) return null;
  return compositionFigure({
    bars: runs.map((run) => ({name: run.name, peak: run.memory_peak,
      total: run.memory_peak.memory_allocated_bytes_max,
      limit: limitOf(run) === null ? null : limitOf(run) * GIBIBYTE})),
    rest: "rounded up by the allocator",
    note: "Allocated memory by its use, when it was fullest.",
  });
}
