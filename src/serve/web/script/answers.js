// Requests answers and receives them: the request, the stream of chunks, its statistics, and the
// repetition of an answer.

function requestBody(conversation) {
  const { system, ...settings } = conversation.settings;
  const sent = conversation.messages.filter(message => message.role === 'user' || message.content);
  return {
    ...(app.models[0] && { model: app.models[0].id }),
    messages: [
      ...(system ? [{ role: 'system', content: system }] : []), ...sent.map(({ role, content }) => ({ role, content })),
    ],
    ...usualSettings(), ...settings, stream: true, stream_options: { include_usage: true, continuous_usage_stats: true },
  };
}

async function answer(conversation) {
  if (runs.has(conversation.id)) return;
  const body = JSON.stringify(requestBody(conversation));
  const message = { role: 'assistant', content: '', stats: {} };
  const run = { conversation, message, controller: new AbortController(), chunks: 0, first: 0, last: 0, spoken: 0 };
  conversation.messages.push(message);
  runs.set(conversation.id, run);
  saveChanged(conversation);
  speech.begin();
  if (app.current === conversation) showConversationEnd(message);
  try {
    const response = await request('v1/chat/completions',
      { method: 'POST', body, signal: run.controller.signal, begins: () => { run.began = performance.now(); } });
    await readAnswer(run, response);
  } catch (error) {
    takeFailure(message, error);
  }
  runs.delete(conversation.id);
  finish(run);
}

function showConversationEnd(message) {
  $('empty').hidden = true;
  showTitle();
  $('turns').append(viewOf(message).node);
  showRunning();
  scrollDown();
}

async function readAnswer(run, response) {
  let drawn = false;
  let saved = performance.now();
  for await (const data of serverEvents(response.body)) {
    if (data === '[DONE]') break;
    takeChunk(run, JSON.parse(data));
    if (!drawn) requestAnimationFrame(() => { drawn = false; paint(run); });
    drawn = true;
    if (performance.now() - saved < 1000) continue;
    save(run.conversation);
    saved = performance.now();
  }
  if (!run.message.end) throw new ServerError('The connection ended before the answer did.');
}

function takeChunk(run, chunk) {
  if (chunk.error) throw new ServerError(chunk.error.message || 'The answer broke off.');
  const { message } = run;
  const choice = chunk.choices?.[0];
  const delta = choice?.delta ?? {};
  const thought = delta.reasoning_content ?? delta.reasoning ?? '';
  if (delta.content || thought) {
    run.last = performance.now();
    run.first ||= run.last;
    ++run.chunks;
  }
  if (thought) message.reasoning = (message.reasoning ?? '') + thought;
  message.content += delta.content ?? '';
  message.end = choice?.finish_reason ?? message.end;
  measure(run, chunk.usage);
}

// Updates the statistics of an answer. If the server sends no counts, every chunk counts as a
// token. The rate leaves out the first tokens, because the time before them is that of the prompt.
function measure(run, usage) {
  const { stats } = run.message;
  if (usage) {
    stats.prompt = usage.prompt_tokens;
    if (usage.prompt_tokens_details?.cached_tokens) stats.cached = usage.prompt_tokens_details.cached_tokens;
  }
  stats.exact = usage != null || (stats.exact ?? false);
  stats.tokens = usage?.completion_tokens ?? Math.max(stats.tokens ?? 0, run.chunks);
  if (!run.first) return;
  stats.first = (run.first - run.began) / 1000;
  run.firstTokens ??= Math.max(stats.tokens, 1);
  const decoding = (run.last - run.first) / 1000;
  if (decoding > 0 && stats.tokens > run.firstTokens) stats.rate = (stats.tokens - run.firstTokens) / decoding;
}

function takeFailure(message, error) {
  if (error.name === 'AbortError' || app.left) {
    message.end = app.left ? 'left' : 'stopped';
    return;
  }
  message.end = 'error';
  message.error = error instanceof ServerError ? error.message : `The answer could not be read: ${error.message}`;
  if (error.retryAfter) message.error += ` Try again in ${error.retryAfter} seconds.`;
}

function paint(run) {
  if (app.current !== run.conversation || !views.has(run.message)) return;
  const follow = atEnd();
  views.get(run.message).update();
  speech.add(run, false);
  if (follow) scrollDown();
}

function finish(run) {
  const { conversation, message } = run;
  if (!app.conversations.has(conversation.id)) return;
  saveChanged(conversation);
  if (message.error || app.models.length === 0) findServer(false);
  if (app.current !== conversation) return;
  paint(run);
  speech.add(run, true);
  speech.speak(message.error ?? statsText(message));
  showRunning();
}

function stop(conversation) {
  runs.get(conversation.id)?.controller.abort();
}

const resend = (message, text) =>
  answerFrom(message, [{ role: 'user', content: text }], 'The message and what came after it were replaced.');
const regenerate = message => answerFrom(message, [], 'The answer and what came after it were replaced.');

// Replaces `message` and all messages after it by `added`, and asks for an answer. The user can
// undo the change.
function answerFrom(message, added, text) {
  const conversation = app.current;
  if (runs.has(conversation.id)) {
    showUndoLine('An answer is under way: stop it first.');
    return;
  }
  const before = conversation.messages;
  conversation.messages = [...before.slice(0, before.indexOf(message)), ...added];
  showConversation();
  answer(conversation);
  showUndoLine(text, () => {
    stop(conversation);
    conversation.messages = before;
    saveChanged(conversation);
    open(conversation);
  });
  $('text').focus();
}

function send() {
  const text = $('text').value.trim();
  if (!text || runs.has(app.current.id)) return;
  const message = { role: 'user', content: text };
  app.current.messages.push(message);
  $('text').value = '';
  store.write('draft', '');
  growComposer();
  showUndoLine('');
  $('turns').append(viewOf(message).node);
  answer(app.current);
}

// Returns whether a key event sends the message. While an input method composes a word, Enter only
// ends the word. On touch screens, which have no Shift+Enter, Enter begins a new line.
const sends = event =>
  event.key === 'Enter' && !event.shiftKey && !event.isComposing && !matchMedia('(pointer: coarse)').matches;

function growComposer() {
  const area = $('text');
  area.style.height = 'auto';
  area.style.height = `${area.scrollHeight + 2}px`;
}
