// Requests to the server, its errors and its key.

class ServerError extends Error {
  constructor(message, status = 0, retryAfter = null) {
    super(message);
    Object.assign(this, { status, retryAfter });
  }
}

async function readFailure(response) {
  const text = await response.text();
  let message = '';
  try {
    message = JSON.parse(text).error.message;
  } catch { /* a proxy's page, say */ }
  message ||= `The server answered with status ${response.status}.`;
  return new ServerError(message, response.status, response.headers.get('Retry-After'));
}

// `begins` is told when the request that is answered goes out, which is after a key was asked for.
async function request(path, { begins = () => {}, asks = true, ...options } = {}) {
  for (;;) {
    const key = session.key;
    const headers = {
      ...(options.body && { 'Content-Type': 'application/json' }), ...(key && { Authorization: `Bearer ${key}` }),
    };
    begins();
    const response = await fetch(path, { ...options, headers, cache: 'no-store', redirect: 'error' }).catch(error => {
      throw error.name === 'AbortError' ? error : new ServerError('The server cannot be reached.');
    });
    if (response.ok) return response;
    const failure = await readFailure(response);
    if (failure.status !== 401 || !asks) throw failure;
    if (session.key === key && !await askForKey(key ? failure.message : '')) throw failure;
  }
}

// One dialog, however many requests wait for it. Resolves to false when it is closed without a key.
let keyAsked = null;
function askForKey(wrong) {
  keyAsked ??= new Promise(resolve => {
    const dialog = $('key-dialog');
    dialog.querySelector('.wrong').textContent = wrong;
    $('key').value = '';
    dialog.returnValue = '';
    dialog.showModal();
    dialog.addEventListener('close', () => {
      keyAsked = null;
      if (dialog.returnValue === 'use') session.key = $('key').value.trim();
      resolve(dialog.returnValue === 'use');
    }, { once: true });
  });
  return keyAsked;
}

async function* serverEvents(stream) {
  const reader = stream.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '', data = [];
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const lines = (rest + value).split('\n');
    rest = lines.pop();
    for (const line of lines.map(text => text.replace(/\r$/, ''))) {
      if (line.startsWith('data:')) data.push(line.slice(5).replace(/^ /, ''));
      if (line !== '' || data.length === 0) continue;
      yield data.join('\n');
      data = [];
    }
  }
}
