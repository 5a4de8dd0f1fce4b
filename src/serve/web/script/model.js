// Shows the model on its tab. The facts come from GET /v1/model, which returns the output of
// `inspect --json` (docs/reference/serving_protocol.md). Every field may be missing.

let search = 0;
async function findServer(asks = true) {
  clearTimeout(search);
  try {
    app.models = (await (await request('v1/models', { asks })).json()).data ?? [];
    app.model = await request('v1/model', { asks }).then(response => response.json()).catch(() => ({}));
    app.model.model ??= app.models[0]?.id;
    $('server').textContent = app.model.model ?? '';
    if (app.current.messages.length === 0) showConversation();
    showContext();
    showModel();
  } catch (error) {
    $('server').textContent = error.status === 503 ? 'The server is loading the model …' : error.message;
    $('model-state').textContent = $('server').textContent;
    if (error.status !== 401) search = setTimeout(findServer, 3000);
  }
}

function showModel() {
  const { model } = app;
  const context = model.context_length ?? app.models[0]?.max_model_len;
  const facts = [
    ['Name', model.model], ['Form', model.form ?? model.compression?.form], ['Method', model.compression?.method],
    ['Weights', model.weights === 'floats' ? model.dtypes : model.weights],
    ['Bits per weight', model.bits_per_weight && number(model.bits_per_weight)],
    ['Parameters', model.parameters && number(model.parameters)], ['Layers', model.layers?.length],
    ['Context', context && `${number(context)} tokens`], ['Device', model.device], ['Version', model.version],
  ];
  $('facts').replaceChildren(...facts.filter(([, value]) => value)
    .map(([name, value]) => element('div', {}, element('dt', {}, name), element('dd', {}, `${value}`))));
  $('model-state').textContent = model.layers?.length ? '' : 'The server tells no more about this model.';
  showBytes(model);
  showLayers(model);
}

function showBytes(model) {
  const known = model.bytes > 0 && model.dense_bytes > 0;
  $('bytes').hidden = !known;
  if (!known) return;
  const bar = (label, value, dense) => {
    const filled = element('div', { class: dense ? 'fill dense' : 'fill' });
    filled.style.width = `${100 * value / Math.max(model.bytes, model.dense_bytes)}%`;
    const track = element('div', { class: 'track', 'aria-hidden': 'true' }, filled);
    return [element('span', {}, label), track, element('span', {}, bytes(value))];
  };
  $('bytes').lastElementChild.replaceChildren(
    element('div', { class: 'sizes' }, ...bar('This model', model.bytes, false), ...bar('Dense', model.dense_bytes, true)),
    element('p', { class: 'quiet' }, `${number(100 * model.bytes / model.dense_bytes)} % of the dense model's bytes.`));
}

const percent = value => `${number(100 * value)} %`;

// Returns the sizes that differ from the dense model, as a pair [this model, dense] for each layer.
// The pair is null if the layer does not have the size.
function sizeRows({ layers, hidden_size: width, intermediate_size: neurons }) {
  const row = (name, pairOf, unit = number) =>
    ({ name, unit, pairs: layers.map(pairOf).map(pair => pair?.[0] > 0 && pair[1] > 0 ? pair : null) });
  const full = matrix => Math.min(matrix.in_features, matrix.out_features);
  const bits = matrix => 8 * matrix.bytes / (matrix.kept_share * width * neurons);
  const all = ['gate', 'up', 'down'];
  const bitRows = all.map(name => row(`Bits per weight of ${name}`,
    ({ [name]: matrix }) => matrix && [bits(matrix), 16], value => number(value, 2)));
  const found = bitRows.flatMap(({ pairs }) => pairs).filter(pair => pair).map(([value]) => value);
  return [
    row('Neurons', layer => [layer.neurons, neurons]),
    row('Width of the input', layer => [layer.input?.rank ?? width, width]),
    ...all.map(name => row(`Rank of ${name}`, ({ [name]: matrix }) => matrix && [matrix.rank || full(matrix), full(matrix)])),
    ...Math.max(...found) - Math.min(...found) > .5 ? bitRows : [],
    row('Parameters of the MLP', layer => [layer.kept_share, 1], percent),
  ].filter(({ pairs }) => pairs.some(pair => pair && pair[0] !== pair[1]));
}

function showLayers(model) {
  const rows = model.layers?.length ? sizeRows(model) : [];
  $('layers').hidden = rows.length === 0;
  $('layers').lastElementChild.replaceChildren(
    element('div', { class: 'layers' }, ...rows.map(layerPicture)),
    element('details', {}, element('summary', {}, 'The same as a table'), layerTable(rows, model.layers ?? [])));
}

function layerPicture({ name, unit, pairs }) {
  const width = 300, height = 90, top = 4, bottom = 18;
  const step = width / pairs.length, gap = step > 4 ? 1.5 : 0;
  const known = pairs.filter(pair => pair), kept = known.map(pair => pair[0]);
  const most = Math.max(...known.flat());
  const bar = (kind, i, value) => drawing('rect', {
    class: kind, x: i * step, width: step - gap, y: top + (height - top - bottom) * (1 - value / most),
    height: (height - top - bottom) * value / most,
  });
  const bars = pairs.map((pair, i) => pair && drawing('g', {},
    drawing('title', {}, `layer ${i}: ${unit(pair[0])} of ${unit(pair[1])}`),
    bar('dense', i, pair[1]), bar('kept', i, pair[0])));
  const [low, high] = [unit(Math.min(...kept)), unit(Math.max(...kept))];
  const text = `${low === high ? low : `${low} to ${high}`} of ${unit(Math.max(...known.map(pair => pair[1])))}`;
  return element('figure', {}, element('figcaption', {}, name, element('span', { class: 'quiet' }, text)),
    drawing('svg', { viewBox: `0 0 ${width} ${height}`, role: 'img', 'aria-label': `${name} per layer: ${text}` }, ...bars,
      drawing('text', { x: 0, y: height - 4 }, 'layer 0'),
      drawing('text', { x: width, y: height - 4, 'text-anchor': 'end' }, `${pairs.length - 1}`)));
}

function layerTable(rows, layers) {
  const head = ['Layer', ...rows.map(({ name }) => name)].map(text => element('th', { scope: 'col' }, text));
  const cell = (unit, pair) => element('td', { class: 'right' }, pair ? `${unit(pair[0])} of ${unit(pair[1])}` : '–');
  const body = layers.map((_, i) => element('tr', {}, element('th', { scope: 'row' }, `${i}`),
    ...rows.map(({ unit, pairs }) => cell(unit, pairs[i]))));
  return element('div', { class: 'scroll', tabindex: '0', role: 'group', 'aria-label': 'Sizes per layer' },
    element('table', {}, element('thead', {}, element('tr', {}, ...head)), element('tbody', {}, ...body)));
}
