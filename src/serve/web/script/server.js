// Sends requests to the server, reads its errors, and asks the user for an API key if it needs one.

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
  } catch { /* the text is not the server's, for example a proxy's page */ }
  message ||= `The server answered with status ${response.status}.`;
  return new ServerError(message, response.status, response.headers.get('Retry-After'));
}

// Sends a request and returns its response. If the server wants a key and `asks` is true, the user
// is asked for one and the request is sent again. `begins` is called each time the request is sent.
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

// Asks the user for a key. All requests that wait for a key share one dialog. The promise resolves
// to false if the dialog is closed without a key.
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

// Yields the data of each event in a stream of server-sent events.
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
