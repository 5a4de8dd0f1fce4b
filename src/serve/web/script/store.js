// Keeps data in the browser. Conversations are in localStorage, which can still be written while
// the page is being left. The API key is in sessionStorage, so it is gone when the tab is closed.

const kSettings = [
  { name: 'temperature', label: 'Temperature', min: 0, max: 100, hint: '0: always the likeliest' },
  { name: 'top_p', label: 'Top p', min: 0, max: 1, hint: 'the likeliest that reach p' },
  { name: 'top_k', label: 'Top k', min: -1, max: 1e9, whole: true, hint: 'the k likeliest; 0: all' },
  { name: 'min_p', label: 'Min p', min: 0, max: 1, hint: 'share of the likeliest one' },
  { name: 'max_tokens', label: 'Longest answer', min: 1, max: 1e9, whole: true, hint: 'in tokens' },
  { name: 'seed', label: 'Seed', min: -(2 ** 53 - 1), max: 2 ** 53 - 1, whole: true, hint: 'the same draws again' },
  { name: 'repetition_penalty', label: 'Repetition penalty', min: 0.01, max: 100, hint: '1: none' },
  { name: 'presence_penalty', label: 'Presence penalty', min: -2, max: 2, hint: 'for what was said' },
  { name: 'frequency_penalty', label: 'Frequency penalty', min: -2, max: 2, hint: 'for how often' },
  { name: 'stop', label: 'Stop texts', lines: true, hint: 'one a line, at most 32' },
];

const store = {
  prefix: 'neuronmm.',
  read(name) {
    try {
      return JSON.parse(localStorage.getItem(this.prefix + name));
    } catch {
      return null;
    }
  },
  write(name, value) {
    try {
      localStorage.setItem(this.prefix + name, JSON.stringify(value));
    } catch (error) {
      const reason = error.name === 'QuotaExceededError' ? 'its storage is full' : 'it forbids storage';
      const text = `This browser does not keep the conversations: ${reason}. Export what you need before you leave.`;
      if (!this.failed) notify(text);
      this.failed = true;
    }
  },
  remove(name) {
    this.failed = false;
    try {
      localStorage.removeItem(this.prefix + name);
    } catch { /* nothing is kept, so there is nothing to remove */ }
  },
  names(kind) {
    try {
      const names = Object.keys(localStorage).filter(name => name.startsWith(this.prefix + kind));
      return names.map(name => name.slice(this.prefix.length));
    } catch {
      return [];
    }
  },
};

const session = {
  memory: null,
  get key() {
    try {
      return sessionStorage.getItem('neuronmm.key') ?? this.memory;
    } catch {
      return this.memory;
    }
  },
  set key(value) {
    this.memory = value;
    try {
      sessionStorage.setItem('neuronmm.key', value);
    } catch { /* the key is then lost with the next reload */ }
  },
};
