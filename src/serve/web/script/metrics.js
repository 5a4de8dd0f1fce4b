// Plots the server's metrics while the tab of the model is open. Counters become rates, and
// histograms become quantiles of the last half minute.

// In seconds: the interval between two samples, the window of quantiles and shares, the shortest
// time axis, and the time that is kept.
const kPoll = 2, kWindow = 30, kShortest = 60, kHistory = 300;

// Reads metrics in Prometheus' text format. Values are summed over their labels, except that
// buckets stay apart. The prefix that the server puts before all names is removed.
function readMetrics(text) {
  const prefix = /^([\w:]*)num_requests_running\b/m.exec(text)?.[1] ?? '';
  const sample = { time: performance.now() / 1000, values: new Map(), buckets: new Map() };
  for (const line of text.split('\n')) {
    const found = /^([\w:]+)(?:\{(.*)\})? (\S+)/.exec(line);
    if (!found?.[1].startsWith(prefix)) continue;
    const [, full, labels, value] = found;
    const name = full.slice(prefix.length);
    const bound = name.endsWith('_bucket') && /\ble="([^"]+)"/.exec(labels)?.[1];
    if (bound) {
      const buckets = sample.buckets.get(name) ?? sample.buckets.set(name, new Map()).get(name);
      buckets.set(bound, (buckets.get(bound) ?? 0) + Number(value));
    } else {
      sample.values.set(name, (sample.values.get(name) ?? 0) + Number(value));
    }
  }
  return sample;
}

const gauge = name => samples => samples.at(-1).values.get(name) ?? null;

function rate(name) {
  return samples => {
    const [before, now] = samples.slice(-2);
    if (!now || now.time - before.time > 3 * kPoll) return null;
    const difference = now.values.get(name) - before.values.get(name);
    return difference >= 0 ? difference / (now.time - before.time) : null;
  };
}

function share(part, whole) {
  return samples => {
    const before = windowStart(samples), now = samples.at(-1);
    const asked = now.values.get(whole) - before.values.get(whole);
    return asked > 0 ? (now.values.get(part) - before.values.get(part)) / asked : null;
  };
}

const windowStart = samples => samples.find(sample => sample.time >= samples.at(-1).time - kWindow);

// Returns a function that computes the quantile q of a histogram over the window. It interpolates
// within a bucket as Prometheus does. A quantile beyond the last bound is that bound.
function quantile(name, q) {
  return samples => {
    const before = windowStart(samples).buckets.get(`${name}_bucket`), now = samples.at(-1).buckets.get(`${name}_bucket`);
    if (!before || !now) return null;
    const bounded = ([bound, count]) => [bound === '+Inf' ? Infinity : Number(bound), count - (before.get(bound) ?? 0)];
    const counts = [...now].map(bounded).sort((a, b) => a[0] - b[0]);
    const all = counts.at(-1)[1];
    if (!(all > 0)) return null;
    const at = counts.findIndex(([, count]) => count >= q * all);
    const [low, below] = at > 0 ? counts[at - 1] : [0, 0];
    const [high, upTo] = counts[at];
    return high === Infinity ? low : low + (high - low) * (q * all - below) / (upTo - below);
  };
}

const latency = name => [['median', quantile(name, .5)], ['95 %', quantile(name, .95)]];
const kPlots = [
  { title: 'Requests', unit: number,
    lines: [['running', gauge('num_requests_running')], ['waiting', gauge('num_requests_waiting')]] },
  { title: 'Tokens per second', unit: number,
    lines: [['generated', rate('generation_tokens_total')], ['of prompts', rate('prompt_tokens_total')]] },
  { title: 'Time to the first token', unit: seconds, lines: latency('time_to_first_token_seconds') },
  { title: 'Time between tokens', unit: seconds, lines: latency('inter_token_latency_seconds') },
  { title: 'Memory of keys and values in use', unit: percent, most: 1, lines: [['in use', gauge('kv_cache_usage_perc')]] },
  { title: 'Prompt tokens found in the cache', unit: percent, most: 1,
    lines: [['found', share('prefix_cache_hits_total', 'prefix_cache_queries_total')]] },
];

const live = { samples: [], points: kPlots.map(plot => plot.lines.map(() => [])), timer: 0, polling: false };

async function poll() {
  clearTimeout(live.timer);
  if ($('view-model').hidden || document.hidden || live.polling) return;
  live.polling = true;
  try {
    addSample(readMetrics(await (await request('metrics', { asks: false })).text()));
    $('live-state').textContent =
      'The last five minutes, as far as this tab was open. Times are those of the last half minute.';
  } catch (error) {
    $('live-state').textContent = `No metrics: ${error.message}`;
  }
  live.polling = false;
  live.timer = setTimeout(poll, 1000 * kPoll);
}

function addSample(sample) {
  const begin = sample.time - kHistory;
  live.samples = [...live.samples.filter(({ time }) => time >= sample.time - kWindow - kPoll), sample];
  kPlots.forEach((plot, i) => plot.lines.forEach(([, value], j) => {
    live.points[i][j] = [...live.points[i][j].filter(([time]) => time >= begin), [sample.time, value(live.samples)]];
  }));
  const span = Math.max(kShortest, sample.time - live.points[0][0][0][0]);
  $('plots').replaceChildren(...kPlots.map((plot, i) => plotFigure(plot, live.points[i], sample.time, span)));
}

// Returns a round number for the top of a plot whose largest value is `value`.
function roundedUp(value) {
  if (!(value > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].find(step => step * power >= value * .999) * power;
}

function plotFigure(plot, lines, now, span) {
  const width = 300, height = 110, top = 14, bottom = 18;
  const most = plot.most ?? roundedUp(Math.max(0, ...lines.flat().map(([, value]) => value ?? 0)));
  const x = time => width * (1 - (now - time) / span);
  const y = value => top + (height - top - bottom) * (1 - Math.min(value / most, 1));
  const legend = plot.lines.map(([name], i) => {
    const value = lines[i].at(-1)[1];
    return element('span', { class: i === 1 ? 'second' : null }, `${name} ${value == null ? '–' : plot.unit(value)}`);
  });
  const label = `${plot.title}: ${legend.map(node => node.textContent).join(', ')}`;
  return element('figure', {}, element('figcaption', {}, plot.title), element('div', { class: 'legend' }, ...legend),
    drawing('svg', { viewBox: `0 0 ${width} ${height}`, role: 'img', 'aria-label': label },
      drawing('path', { class: 'axis', d: `M0 ${top}H${width}M0 ${height - bottom}H${width}` }),
      ...lines.map((points, i) => drawing('path', { class: i === 1 ? 'line second' : 'line', d: linePath(points, x, y) })),
      drawing('text', { x: 0, y: top - 4 }, plot.unit(most)),
      drawing('text', { x: 0, y: height - 4 }, `${number(span / 60, 2)} min ago`),
      drawing('text', { x: width, y: height - 4, 'text-anchor': 'end' }, 'now')));
}

// Returns the path of a line, with gaps if values are missing. A point between two gaps becomes a
// short stroke, since it would be invisible otherwise.
function linePath(points, x, y) {
  let path = '', last = null;
  for (const [time, value] of points) {
    if (value == null) { last = null; continue; }
    const near = last != null && time - last < 3 * kPoll;
    path += `${near ? 'L' : 'M'}${x(time).toFixed(1)} ${y(value).toFixed(1)}${near ? '' : 'h.1'}`;
    last = time;
  }
  return path;
}
