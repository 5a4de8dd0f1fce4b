// Reads conversations from files and from localStorage. Every field is checked before it is used,
// since a file may come from anywhere.

function expect(condition, where, what) {
  if (!condition) throw new Error(`${where}: expected ${what}`);
}

function readSetting(setting, value, where) {
  if (setting.lines) {
    expect(Array.isArray(value) && value.length <= 32 && value.every(line => typeof line === 'string' && line),
      where, 'at most 32 texts that are not empty');
  } else {
    const within = typeof value === 'number' && value >= setting.min && value <= setting.max;
    expect(within && (!setting.whole || Number.isSafeInteger(value)), where,
      `a ${setting.whole ? 'whole ' : ''}number of ${setting.min} to ${setting.max}`);
  }
  return value;
}

function readSettings(value, where) {
  expect(isObject(value), where, 'an object');
  const settings = {};
  for (const setting of kSettings) {
    const { name } = setting;
    if (value[name] != null) settings[name] = readSetting(setting, value[name], `${where}.${name}`);
  }
  if (value.system != null) {
    expect(typeof value.system === 'string', `${where}.system`, 'a text');
    settings.system = value.system;
  }
  return settings;
}

function readStats(value, where) {
  expect(isObject(value), where, 'an object');
  const stats = { exact: value.exact === true };
  for (const name of ['tokens', 'first', 'rate', 'prompt', 'cached']) {
    if (value[name] == null) continue;
    expect(typeof value[name] === 'number' && value[name] >= 0, `${where}.${name}`, 'a number of at least 0');
    stats[name] = value[name];
  }
  return stats;
}

// Takes only known fields of the right type. An answer without an end was cut off when the page was
// left.
function readMessage(value, where) {
  expect(isObject(value), where, 'an object');
  expect(value.role === 'user' || value.role === 'assistant', `${where}.role`, '"user" or "assistant"');
  expect(typeof value.content === 'string', `${where}.content`, 'a text');
  const message = { role: value.role, content: value.content };
  if (value.role === 'user') return message;
  for (const name of ['reasoning', 'end', 'error']) {
    if (value[name] == null) continue;
    expect(typeof value[name] === 'string', `${where}.${name}`, 'a text');
    message[name] = value[name];
  }
  if (value.stats != null) message.stats = readStats(value.stats, `${where}.stats`);
  message.end ??= 'left';
  return message;
}

function readConversation(value, where) {
  expect(isObject(value), where, 'an object');
  expect(Array.isArray(value.messages), `${where}.messages`, 'a list');
  expect(value.title == null || typeof value.title === 'string', `${where}.title`, 'a text');
  const time = name => Number.isFinite(value[name]) ? value[name] : Date.now();
  return {
    id: typeof value.id === 'string' && /^[\w-]{1,64}$/.test(value.id) ? value.id : newId(),
    title: (value.title ?? '').slice(0, 200), named: value.named === true, created: time('created'), updated: time('updated'),
    settings: readSettings(value.settings ?? {}, `${where}.settings`),
    messages: value.messages.map((message, i) => readMessage(message, `${where}.messages[${i}]`)),
  };
}

const newId = () => Array.from(crypto.getRandomValues(new Uint8Array(12)), byte => byte.toString(16).padStart(2, '0')).join('');

const kFormat = 'neuronmm-conversations';
const exported = conversations => ({ format: kFormat, version: 1, conversations });

// Reads a file that Export made, or a list of messages that `/save` of `neuronmm chat` made.
function readFile(text) {
  const value = JSON.parse(text);
  if (Array.isArray(value)) {
    const system = value.filter(message => message?.role === 'system').map(message => message.content).join('\n');
    const messages = value.filter(message => message?.role !== 'system').map(message => ({ end: 'stop', ...message }));
    return [readConversation({ title: 'Imported', settings: system ? { system } : {}, messages }, 'file')];
  }
  expect(isObject(value) && value.format === kFormat, 'format', `"${kFormat}"`);
  expect(value.version === 1, 'version', '1');
  expect(Array.isArray(value.conversations), 'conversations', 'a list');
  return value.conversations.map((conversation, i) => readConversation(conversation, `conversations[${i}]`));
}
